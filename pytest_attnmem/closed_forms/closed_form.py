"""The closed form of a program's peak memory, derived from runs of the program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from ..errors import BudgetError, SizesError
from ..formulas.formula import Formula, parse_formula
from ..formulas.interpolation import CONFIRMING
from ..formulas.multivariate_fit import Point, Sample, fit, sample
from ..formulas.polynomial import Polynomial, largest
from ..measurement.held import Held
from ..units import shown
from .allocation_trace import Allocated, Freed, Program, Run, aligned, peak

#: Symbol → the sizes at which a program is run. Lengths are multiples of the padding of kernels; no
#: size is 1, for which many operators have a shortcut.
SIZES: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "B": (2, 3, 4, 5, 6),
        "H": (4, 6, 8, 12, 16),
        "Hkv": (2, 3, 4, 6),
        "N": (256, 384, 512, 640, 768),
        "M": (384, 512, 640, 768, 1024),
        "d": (16, 32, 48, 64, 80),
        "dv": (16, 32, 48, 64, 96),
    }
)
_OTHERS = (16, 32, 48, 64, 96)
#: Sizes of H for programs that vary Hkv too: each is a multiple of every Hkv.
_GROUPED = (12, 24, 36, 48, 60)


@dataclass(frozen=True, slots=True)
class Holder:
    """A tensor, or scratch, that is alive at the peak; its bytes are a formula."""

    bytes: str
    shape: str
    """Such as ``[B, H, N, N]``; empty for scratch inside a kernel."""
    dtype: str
    op: str
    where: str
    function: str = ""
    scratch: bool = False
    """True for memory that a kernel allocates for itself."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the closed form, and the tensors that hold it, largest first."""

    text: str
    held: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class CandidatePeak:
    """A live set that is the largest at some sizes, and its bytes as a polynomial."""

    polynomial: Polynomial
    terms: tuple[Term, ...]
    region: str
    """The tried sizes at which it was the largest, as text; empty for the only candidate."""


@dataclass(frozen=True, slots=True)
class Derived(Formula):
    """A peak as a formula, usable as a budget: the maximum of its ``candidates``."""

    candidates: tuple[CandidatePeak, ...] = ()
    how: str = "derived"
    """``derived`` tensor by tensor, or ``interpolated`` from the peaks alone."""
    without_scratch: Derived | None = None
    """The formula of the program's tensors alone, if this one counts the scratch of kernels."""

    @property
    def polynomial(self) -> Polynomial:
        """Returns the bytes of the live set that is the largest at usual sizes, with N above d."""
        return self.candidates[0].polynomial

    @property
    def terms(self) -> tuple[Term, ...]:
        """Returns the terms of that live set, with the tensors that hold each."""
        return self.candidates[0].terms

    @property
    def scratch(self) -> Polynomial:
        """Returns the bytes of the scratch in that live set."""
        if self.without_scratch is None:
            return Polynomial({})
        return self.polynomial - self.without_scratch.polynomial


def closed_form(
    program: Program,
    symbols: Iterable[str],
    sizes: Mapping[str, Sequence[int]] | None = None,
    *,
    scratch: bool = False,
) -> Derived:
    """Runs ``program`` at several sizes of its symbols and returns its peak as a formula.

    The peak counts the program's tensors and, with ``scratch``, the scratch of kernels too.

    Raises:
        BudgetError: there are too few sizes, or no polynomial goes through all peaks.
    """
    where = sample(_sizes(symbols, {} if sizes is None else sizes))
    runs = {point: program(where.named(point)) for point in where.points}
    alone = _derived(where, {point: _tensors_alone(run) for point, run in runs.items()})
    if not scratch:
        return alone
    whole = _derived(where, runs)
    return Derived(whole.text, whole.tree, whole.candidates, whole.how, alone)


def _sizes(
    symbols: Iterable[str], given: Mapping[str, Sequence[int]]
) -> dict[str, tuple[int, ...]]:
    names = [*dict.fromkeys(symbols)]
    _check_sizes(given)
    if odd := [name for name in given if name not in names]:
        raise BudgetError(
            f"sizes are given for {', '.join(odd)}, and no shape has that symbol; the shapes have"
            f" {', '.join(names) or 'none'}"
        )
    if not names:
        raise BudgetError("the shapes have no symbol to derive a formula in; write 'B H N d'")
    made = {}
    for name in names:
        usual = _GROUPED if name == "H" and "Hkv" in names else SIZES.get(name, _OTHERS)
        values = tuple(sorted({*given.get(name, usual)}))
        if len(values) < 2 + CONFIRMING:
            raise BudgetError(
                f"derive needs {2 + CONFIRMING} sizes of {name} or more, got {len(values)}: two"
                f" determine a line, and {CONFIRMING} confirm it"
            )
        made[name] = values
    return made


def _check_sizes(given: object) -> None:
    accepted = "write whole numbers >= 1 and < 2**40, as in sizes={'N': [512, 1024, 1536, 2048]}"
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise BudgetError(f"sizes={shown(given)} is not a dict of symbols; {accepted}")
    for name, values in given.items():
        listed = isinstance(values, (list, tuple, range)) and len(values) <= 100
        if not listed or not all(type(size) is int and 1 <= size < 1 << 40 for size in values):
            raise BudgetError(f"cannot read sizes of {name}, {shown(values)}; {accepted}")


def _derived(where: Sample, runs: Mapping[Point, Run]) -> Derived:
    if aligned([*runs.values()]):
        candidates = _live_sets(where, runs)
        if candidates:
            return _written(candidates, "derived")
    peaks = {point: peak(run) for point, run in runs.items()}
    found = fit(where, peaks)
    if found is None:
        tried = ", ".join(
            f"{symbol}={'/'.join(str(p[place]) for p in axis)}"
            for place, (symbol, axis) in enumerate(zip(where.symbols, where.axes, strict=True))
        )
        raise SizesError(
            f"no polynomial goes through the peaks at {tried}, most likely because of blocks or a"
            " branch on a size; give sizes that avoid them"
        )
    return _written([CandidatePeak(found, (), "")], "interpolated")


def _live_sets(where: Sample, runs: Mapping[Point, Run]) -> list[CandidatePeak]:
    """Returns the live sets that no other live set bounds; none if a tensor has no polynomial."""
    first = runs[where.base]
    births = [event.held for event in first if isinstance(event, Allocated)]
    columns = {
        point: [event.held.nbytes for event in run if isinstance(event, Allocated)]
        for point, run in runs.items()
    }
    known: dict[tuple[int, ...], Polynomial | None] = {}
    sizes: list[Polynomial] = []
    for number in range(len(births)):
        values = tuple(columns[point][number] for point in runs)
        if values not in known:
            known[values] = fit(where, dict(zip(runs, values, strict=True)))
        found = known[values]
        if found is None:
            return []
        sizes.append(found)
    sets = _summits(first, sizes)
    kept = largest(sorted(sets, key=lambda p: -p.value(where.named(where.base))))
    heights = {p: [kept_.value(where.named(p)) for kept_ in kept] for p in runs}
    candidates = []
    for number, polynomial in enumerate(kept):
        at = [p for p, values in heights.items() if values[number] == max(values)]
        region = "" if len(kept) == 1 else _region(where, at)
        alive = [(births[birth], sizes[birth]) for birth in sets[polynomial]]
        shapes = _shapes(where, runs, sets[polynomial])
        candidates.append(CandidatePeak(polynomial, _terms(polynomial, alive, shapes), region))
    return candidates


def _summits(run: Run, sizes: Sequence[Polynomial]) -> dict[Polynomial, tuple[int, ...]]:
    """Returns the live sets before each free and at the end: total bytes → births."""
    total, alive, rising = Polynomial.constant(0), dict[int, None](), False
    births = 0
    sets: dict[Polynomial, tuple[int, ...]] = {}
    for event in run:
        if isinstance(event, Allocated):
            total, rising = total + sizes[births], True
            alive[births] = None
            births += 1
        else:
            if rising:
                sets.setdefault(total, tuple(alive))
            total, rising = total - sizes[event.birth], False
            del alive[event.birth]
    if rising:
        sets.setdefault(total, tuple(alive))
    return sets


def _region(where: Sample, at: Sequence[Point]) -> str:
    if not at:
        return "nowhere among the sizes tried"
    if len(at) == len(where.points):
        return "everywhere among the sizes tried"
    shown = " ".join(f"{name}={size}" for name, size in where.named(at[0]).items())
    return f"at {len(at)} of {len(where.points)} sizes tried, such as {shown}"


def _shapes(where: Sample, runs: Mapping[Point, Run], births: Iterable[int]) -> dict[int, str]:
    listed = {p: [e.held for e in run if isinstance(e, Allocated)] for p, run in runs.items()}
    shapes = {}
    for birth in births:
        rank = len(listed[where.base][birth].shape)
        dims = [
            fit(where, {p: held[birth].shape[place] for p, held in listed.items()})
            for place in range(rank)
        ]
        written = ", ".join("?" if dim is None else str(dim) for dim in dims)
        shapes[birth] = f"[{written}]" if rank else ""
    return shapes


def _terms(
    polynomial: Polynomial, alive: Sequence[tuple[Held, Polynomial]], shapes: Mapping[int, str]
) -> tuple[Term, ...]:
    """Returns each term of the sum, with the tensors whose bytes have the same term."""
    holders = [
        (
            size,
            Holder(str(size), shape, held.dtype, held.op, held.where, held.function, held.scratch),
        )
        for (held, size), shape in zip(alive, shapes.values(), strict=True)
    ]
    return tuple(
        Term(
            str(Polynomial({monomial: value})),
            tuple(
                holder
                for size, holder in sorted(
                    holders, key=lambda pair: -pair[0].terms.get(monomial, 0)
                )
                if monomial in size.terms
            ),
        )
        for monomial, value in polynomial.ordered()
    )


def _tensors_alone(run: Run) -> Run:
    """Returns a run without the scratch of kernels; its births are counted anew."""
    numbers: dict[int, int] = {}
    births = 0
    kept: list[Allocated | Freed] = []
    for event in run:
        if isinstance(event, Allocated):
            if not event.held.scratch:
                numbers[births] = len(numbers)
                kept.append(event)
            births += 1
        elif event.birth in numbers:
            kept.append(event._replace(birth=numbers[event.birth]))
    return tuple(kept)


def _written(candidates: Sequence[CandidatePeak], how: str) -> Derived:
    texts = [str(candidate.polynomial) for candidate in candidates]
    text = texts[0] if len(texts) == 1 else f"max({', '.join(texts)})"
    return Derived(text, parse_formula(text).tree, tuple(candidates), how)
