"""The closed form of a program's peak memory, from the program itself."""

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
from .allocation_trace import Alloc, Free, Program, Run, aligned, peak

#: Sizes to run a program at, by symbol: multiples of what kernels pad to, and never 1, for which
#: many an operator finds a shorter way.
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
#: Query heads, where key/value heads are varied as well, which divide them.
_GROUPED = (12, 24, 36, 48, 60)


@dataclass(frozen=True, slots=True)
class Holder:
    """One tensor that is alive at the peak, and its bytes in the symbols of the program."""

    bytes: str
    shape: str
    """``[B, H, N, N]``; empty for scratch inside a kernel."""
    dtype: str
    op: str
    where: str
    function: str = ""
    scratch: bool = False
    """True for memory that a kernel allocates for itself."""


@dataclass(frozen=True, slots=True)
class Term:
    """A term of the closed form, and who holds it, largest first."""

    text: str
    held: tuple[Holder, ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A live set that can be the largest, as one polynomial."""

    polynomial: Polynomial
    terms: tuple[Term, ...]
    region: str
    """Where it was the largest of all, of the sizes that were tried; empty where it is always."""


@dataclass(frozen=True, slots=True)
class Derived(Formula):
    """A peak as a formula, which is a budget; ``candidates`` are what it is the largest of."""

    candidates: tuple[Candidate, ...] = ()
    how: str = "derived"
    """``derived`` tensor by tensor, or ``interpolated``: the peak alone goes through all points."""
    without_scratch: Derived | None = None
    """The program's tensors alone, where kernels' scratch is counted."""

    @property
    def polynomial(self) -> Polynomial:
        """The live set that is the largest where sizes are as they are most: N above d."""
        return self.candidates[0].polynomial

    @property
    def terms(self) -> tuple[Term, ...]:
        """Who holds what in that live set."""
        return self.candidates[0].terms

    @property
    def scratch(self) -> Polynomial:
        """What kernels hold for themselves in it."""
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
    """Run ``program`` at several sizes of its symbols, and find its peak as a formula in them.

    It is that of the program's tensors; with ``scratch``, of what kernels hold as well.

    Raises:
        BudgetError: sizes that are too few, or a peak that no polynomial goes through.
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
                f"sizes of {name} are {len(values)}, and {2 + CONFIRMING} are needed: two tell a"
                f" line, {CONFIRMING} confirm it"
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
            f"no polynomial goes through the peak at {tried}: blocks or a branch on a size, most"
            " likely; give sizes that avoid them"
        )
    return _written([Candidate(found, (), "")], "interpolated")


def _live_sets(where: Sample, runs: Mapping[Point, Run]) -> list[Candidate]:
    """What is alive whenever something was born, where nothing else is at least as large."""
    first = runs[where.base]
    births = [event.held for event in first if isinstance(event, Alloc)]
    columns = {
        point: [event.held.nbytes for event in run if isinstance(event, Alloc)]
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
        candidates.append(Candidate(polynomial, _terms(polynomial, alive, shapes), region))
    return candidates


def _summits(run: Run, sizes: Sequence[Polynomial]) -> dict[Polynomial, tuple[int, ...]]:
    """Each sum of what is alive just before something dies, or at the end → the births in it."""
    total, alive, rising = Polynomial.constant(0), dict[int, None](), False
    born = 0
    sets: dict[Polynomial, tuple[int, ...]] = {}
    for event in run:
        if isinstance(event, Alloc):
            total, rising = total + sizes[born], True
            alive[born] = None
            born += 1
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
    listed = {p: [e.held for e in run if isinstance(e, Alloc)] for p, run in runs.items()}
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
    """Each term of the sum, with the tensors whose own size has it."""
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
    """A run without what kernels hold for themselves, its births counted anew."""
    numbers: dict[int, int] = {}
    born = 0
    kept: list[Alloc | Free] = []
    for event in run:
        if isinstance(event, Alloc):
            if not event.held.scratch:
                numbers[born] = len(numbers)
                kept.append(event)
            born += 1
        elif event.birth in numbers:
            kept.append(event._replace(birth=numbers[event.birth]))
    return tuple(kept)


def _written(candidates: Sequence[Candidate], how: str) -> Derived:
    texts = [str(candidate.polynomial) for candidate in candidates]
    text = texts[0] if len(texts) == 1 else f"max({', '.join(texts)})"
    return Derived(text, parse_formula(text).tree, tuple(candidates), how)
