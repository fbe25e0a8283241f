"""Fits polynomials in several symbols exactly, and confirms them at a point beside the fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from random import Random

from .interpolation import CONFIRMING, combination, line
from .polynomial import Monomial, Polynomial

#: Points beside the axes, for each symbol that is varied.
_BESIDE = 4


Point = tuple[int, ...]


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
