"""The closed form of a program's peak memory, derived from runs of the program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType

from ..errors import BudgetError, SizesError
from ..formulas.interpolation import CONFIRMING, Point, Sample, fit, sample
from ..formulas.polynomial import Polynomial
from ..units import shown
from .derived import Derived
from .layers import linear_form
from .live_sets import Allocated, Freed, Program, Run, aligned, live_sets, peak
from .terms import written
from .valid_sizes import with_sizes

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
_NONE: Mapping[str, Sequence[int]] = MappingProxyType({})
_OTHERS = (16, 32, 48, 64, 96)
#: Sizes of H for programs that vary Hkv too: each is a multiple of every Hkv.
_GROUPED = (12, 24, 36, 48, 60)


def closed_form(
    program: Program,
    symbols: Iterable[str],
    sizes: Mapping[str, Sequence[int]] | None = None,
    *,
    scratch: bool = False,
    numbers: Mapping[str, Sequence[int]] = _NONE,
) -> Derived:
    """Runs ``program`` at several sizes of its symbols and returns its peak as a formula.

    The peak counts the program's tensors and, with ``scratch``, the scratch of kernels too.
    ``numbers`` are symbols that change the program itself, such as its layers, each with the
    numbers to run; the peak is linear in them.

    Raises:
        BudgetError: there are too few sizes, no polynomial goes through all peaks, or the peak is
            not linear in a number.
    """
    where = sample(_sizes(symbols, {} if sizes is None else sizes))
    if not numbers:
        return _form(program, where, scratch)
    (name, values), *others = numbers.items()

    def at(number: int) -> Derived:
        def run(of: Mapping[str, int]) -> Run:
            return program({name: number, **of})

        return closed_form(run, where.symbols, sizes, scratch=scratch, numbers=dict(others))

    usual = {other: max(listed) for other, listed in others}
    return linear_form(name, values, at, {**where.named(where.base), **usual})


def _form(program: Program, where: Sample, scratch: bool) -> Derived:
    runs = {point: program(where.named(point)) for point in where.points}
    alone = _derived(where, {point: _tensors_alone(run) for point, run in runs.items()})
    if not scratch:
        return with_sizes(alone, where, lambda at: _tensors_alone(program(at)))
    whole = with_sizes(_derived(where, runs), where, program)
    alone = replace(alone, least=whole.least, most=whole.most, steps=whole.steps)
    return replace(whole, without_scratch=alone)


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
        found = live_sets(where, runs)
        if found:
            return written(found, where.named(where.base), partial(_region, where))
    peaks = {point: peak(run) for point, run in runs.items()}
    fitted = fit(where, peaks)
    if fitted is None:
        tried = ", ".join(
            f"{symbol}={'/'.join(str(p[place]) for p in axis)}"
            for place, (symbol, axis) in enumerate(zip(where.symbols, where.axes, strict=True))
        )
        raise SizesError(
            f"no polynomial goes through the peaks at {tried}, most likely because of blocks or a"
            " branch on a size; give sizes that avoid them"
        )
    whole = written({fitted: ()}, where.named(where.base), partial(_region, where))
    return replace(whole, how="interpolated")


def _region(where: Sample, kept: Sequence[Polynomial], one: Polynomial) -> str:
    """Returns the tried sizes at which one of several polynomials is the largest, in words."""
    at = [
        sizes
        for sizes in map(where.named, where.points)
        if one.value(sizes) == max(other.value(sizes) for other in kept)
    ]
    if not at:
        return "nowhere among the sizes tried"
    if len(at) == len(where.points):
        return "everywhere among the sizes tried"
    shown = " ".join(f"{name}={size}" for name, size in at[0].items())
    return f"at {len(at)} of {len(where.points)} sizes tried, such as {shown}"


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
