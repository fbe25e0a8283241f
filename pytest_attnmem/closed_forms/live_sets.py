"""The allocations and frees of a program, and the sets of tensors that are alive together.

A program makes the same tensors in the same order at all sizes. Runs at several sizes are therefore
compared event by event, and the bytes of each tensor are fitted on their own: exactly, through more
points than the fit needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..formulas.interpolation import Point, Sample, fit
from ..formulas.polynomial import Polynomial
from ..measurement.held import Held
from .derived import Holder, Kind


class Allocated(NamedTuple):
    """The allocation of a tensor or of scratch."""

    held: Held


class Freed(NamedTuple):
    """The end of an allocation; ``birth`` counts the allocations of the run from 0."""

    birth: int


Run = tuple["Allocated | Freed", ...]
Program = Callable[[Mapping[str, int]], Run]


def aligned(runs: Sequence[Run]) -> bool:
    """Returns True if all runs have the same events, apart from sizes."""
    first, *others = map(_skeleton, runs)
    return all(other == first for other in others)


def _skeleton(run: Run) -> list[object]:
    return [
        (event.held.op, event.held.where, event.held.dtype, len(event.held.shape))
        if isinstance(event, Allocated)
        else event.birth
        for event in run
    ]


def peak(run: Run) -> int:
    """Returns the peak of a run, in bytes."""
    level = high = 0
    sizes: list[int] = []
    for event in run:
        if isinstance(event, Allocated):
            sizes.append(event.held.nbytes)
            level += event.held.nbytes
            high = max(high, level)
        else:
            level -= sizes[event.birth]
    return high


def live_sets(where: Sample, runs: Mapping[Point, Run]) -> dict[Polynomial, tuple[Kind, ...]]:
    """Returns the kinds of tensors of each live set by its bytes; none if one has no polynomial.

    ``runs`` have the same events, apart from sizes.
    """
    fits = _Fits(where, [*runs])
    listed = [
        [event.held for event in run if isinstance(event, Allocated)] for run in runs.values()
    ]
    births = [*zip(*listed, strict=True)]
    sizes: list[Polynomial] = []
    for tensors in births:
        found = fits.through(tuple(tensor.nbytes for tensor in tensors))
        if found is None:
            return {}
        sizes.append(found)
    first = runs[where.base]
    made: dict[Polynomial, tuple[Kind, ...]] = {}
    for total, alive in _summits(first, sizes).items():
        kinds = Counter[Holder]()
        for birth in alive:
            held = births[birth][0]
            kinds[
                Holder(
                    str(sizes[birth]),
                    fits.written([tensor.shape for tensor in births[birth]]),
                    held.dtype,
                    held.op,
                    held.where,
                    held.function,
                    held.scratch,
                )
            ] += 1
        of = {str(size): size for size in (sizes[birth] for birth in alive)}
        made[total] = tuple(
            Kind(replace(holder, count=str(count)), of[holder.bytes], Polynomial.constant(count))
            for holder, count in kinds.items()
        )
    return made


class _Fits:
    """Polynomials through the values of all runs, each fitted once."""

    def __init__(self, where: Sample, points: Sequence[Point]) -> None:
        self._where = where
        self._points = points
        self._known: dict[tuple[int, ...], Polynomial | None] = {}

    def through(self, values: tuple[int, ...]) -> Polynomial | None:
        """Returns the polynomial; ``values`` are in the order of the runs."""
        if values not in self._known:
            named = dict(zip(self._points, values, strict=True))
            self._known[values] = fit(self._where, named)
        return self._known[values]

    def written(self, shapes: Sequence[tuple[int, ...]]) -> str:
        """Returns ``[B, H, N, N]``; empty for scratch inside a kernel and for scalars."""
        dims = [self.through(sizes) for sizes in zip(*shapes, strict=True)]
        written = ", ".join("?" if dim is None else str(dim) for dim in dims)
        return f"[{written}]" if dims else ""


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
