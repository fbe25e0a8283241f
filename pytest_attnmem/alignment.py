"""One program at many sizes: what each of its tensors is as a polynomial in them.

The same program makes the same tensors in the same order, whatever their sizes. So its runs are
laid side by side, and each tensor's bytes are fitted on their own: exactly, through more points
than the fit needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from random import Random
from typing import NamedTuple

from .interpolation import CONFIRMING, combination, line
from .measurement import Held
from .polynomial import Monomial, Polynomial

#: Points beside the axes, for each symbol that is varied.
_BESIDE = 4


class Birth(NamedTuple):
    """Something is allocated."""

    held: Held


class Death(NamedTuple):
    """What was born in that place, counted from 0, is gone."""

    birth: int


Run = tuple["Birth | Death", ...]
Point = tuple[int, ...]
Program = Callable[[Mapping[str, int]], Run]


@dataclass(frozen=True, slots=True)
class Sample:
    """Points of a space of sizes: axes through one of them, and others beside."""

    symbols: tuple[str, ...]
    base: Point
    axes: tuple[tuple[Point, ...], ...]
    """By symbol: the points that differ from ``base`` in it alone, and ``base``."""
    beside: tuple[Point, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """All of them, each once."""
        return tuple(
            dict.fromkeys((self.base, *(p for axis in self.axes for p in axis), *self.beside))
        )

    def named(self, point: Point) -> dict[str, int]:
        """The sizes of a point by symbol."""
        return dict(zip(self.symbols, point, strict=True))


def sample(sizes: Mapping[str, Sequence[int]]) -> Sample:
    """Points for these sizes of each symbol; the same each time."""
    symbols = tuple(sizes)
    base = tuple(values[len(values) // 2] for values in sizes.values())
    axes = tuple(
        tuple((*base[:place], value, *base[place + 1 :]) for value in values)
        for place, values in enumerate(sizes.values())
    )
    random = Random(0)
    beside = [
        tuple(random.choice(values) for values in sizes.values())
        for _ in range(_BESIDE * len(symbols) if len(symbols) > 1 else 0)
    ]
    return Sample(symbols, base, axes, tuple(beside))


def fit(where: Sample, values: Mapping[Point, int]) -> Polynomial | None:
    """The polynomial through every point; ``None`` if there is none that they confirm.

    Along each axis it is found alone; what it is made of there, in every combination, is what it
    can be made of, and all points together say how much there is of each.
    """
    parts: list[list[Monomial]] = []
    for symbol, axis, place in zip(where.symbols, where.axes, range(len(where.axes)), strict=True):
        found = line(symbol, [point[place] for point in axis], [values[p] for p in axis])
        if found is None:
            return None
        parts.append([*found.terms] or [()])
    basis = [
        Polynomial({tuple(sorted(factor for part in parts for factor in part)): Fraction(1)})
        for parts in product(*parts)
    ]
    points = where.points
    if len(basis) + (CONFIRMING if len(points) > 1 else 0) > len(points):
        return None
    return combination(basis, [where.named(p) for p in points], [values[p] for p in points])


def aligned(runs: Sequence[Run]) -> bool:
    """Whether all runs did the same, at whatever sizes."""
    first, *others = map(_skeleton, runs)
    return all(other == first for other in others)


def _skeleton(run: Run) -> list[object]:
    return [
        (event.held.op, event.held.where, event.held.dtype, len(event.held.shape))
        if isinstance(event, Birth)
        else event.birth
        for event in run
    ]


def peak(run: Run) -> int:
    """The highest bytes alive in a run."""
    level = high = 0
    sizes: list[int] = []
    for event in run:
        if isinstance(event, Birth):
            sizes.append(event.held.nbytes)
            level += event.held.nbytes
            high = max(high, level)
        else:
            level -= sizes[event.birth]
    return high
