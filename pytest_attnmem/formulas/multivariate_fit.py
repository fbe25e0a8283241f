"""Exact polynomials in several symbols, confirmed at points that the fit does not need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice, product
from random import Random

from .interpolation import CONFIRMING, combination, line
from .polynomial import Monomial, Polynomial

#: The number of points off the axes for each symbol.
_BESIDE = 4
#: The points that are drawn for them; some are on an axis, and some are drawn twice.
_DRAWS = 99

#: A size for each symbol, in the order of the symbols.
Point = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of points: axes through a base point, and points off the axes."""

    symbols: tuple[str, ...]
    base: Point
    axes: tuple[tuple[Point, ...], ...]
    """For each symbol, the points that differ from ``base`` in that symbol only, and ``base``."""
    beside: tuple[Point, ...]

    @property
    def points(self) -> tuple[Point, ...]:
        """Returns all points, each once."""
        return tuple(
            dict.fromkeys((self.base, *(p for axis in self.axes for p in axis), *self.beside))
        )

    def named(self, point: Point) -> dict[str, int]:
        """Returns the sizes of a point by symbol."""
        return dict(zip(self.symbols, point, strict=True))


def sample(sizes: Mapping[str, Sequence[int]]) -> Sample:
    """Returns the points for these sizes of each symbol; equal sizes give equal points."""
    symbols = tuple(sizes)
    base = tuple(values[len(values) // 2] for values in sizes.values())
    axes = tuple(
        tuple((*base[:place], value, *base[place + 1 :]) for value in values)
        for place, values in enumerate(sizes.values())
    )
    beside = islice(_mixed([*sizes.values()], base), _BESIDE * len(symbols))
    return Sample(symbols, base, axes, tuple(beside))


def off_axes(
    base: Point, sizes: Sequence[Sequence[int]], terms: Sequence[int]
) -> tuple[Point, ...]:
    """Returns points that differ from *base* in more than one symbol; the choice is deterministic.

    A grid with as many *sizes* of a symbol as its form has *terms* determines every product; a few
    more points confirm it.
    """
    enough = [
        [own, *[size for size in axis if size != own][: count - 1]]
        for own, axis, count in zip(base, sizes, terms, strict=True)
    ]
    chosen = dict.fromkeys(point for point in product(*enough) if _apart(point, base) > 1)
    chosen |= dict.fromkeys(
        islice((p for p in _mixed(sizes, base) if p not in chosen), 2 * CONFIRMING)
    )
    return (*chosen,)


def _mixed(sizes: Sequence[Sequence[int]], base: Point) -> Iterator[Point]:
    """Yields points that differ from *base* in more than one symbol, each once, in a fixed order.

    A point on an axis says nothing of a product of symbols.
    """
    random = Random(0)
    drawn = (tuple(random.choice(axis) for axis in sizes) for _ in range(_DRAWS))
    yield from dict.fromkeys(point for point in drawn if _apart(point, base) > 1)


def _apart(point: Point, base: Point) -> int:
    return sum(a != b for a, b in zip(point, base, strict=True))


def fit(where: Sample, values: Mapping[Point, int]) -> Polynomial | None:
    """Returns the polynomial through every point; ``None`` if the points do not show just one.

    Each axis has a polynomial of its own, which its points confirm. The products of their monomials
    are the basis, and all points together give the coefficients.
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
    return combination(basis, [where.named(p) for p in points], [values[p] for p in points])
