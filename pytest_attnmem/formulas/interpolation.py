"""Exact polynomials through measured points, by divided differences of integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, islice, pairwise, product
from math import gcd, lcm
from random import Random

from .polynomial import ONE, Monomial, Polynomial

#: The number of points that a form must predict: any that many may be left out of the fit.
CONFIRMING = 2

#: The blocks to which kernels and allocators pad lengths.
PADDINGS = (8, 16, 32, 64, 128, 256)


def divided_differences(sizes: Sequence[int], values: Sequence[Fraction]) -> list[Fraction]:
    """Returns Newton's coefficients of the polynomial through these points."""
    column = [*values]
    coefficients = [column[0]]
    for order in range(1, len(sizes)):
        column = [
            (after - before) / (sizes[place + order] - sizes[place])
            for place, (before, after) in enumerate(pairwise(column))
        ]
        coefficients.append(column[0])
    return coefficients


def differences(sizes: Sequence[int], values: Sequence[int], order: int) -> list[Fraction]:
    """Returns every divided difference of that order: all 0 for a polynomial of lower degree."""
    window = order + 1
    return [
        divided_differences(
            sizes[at : at + window], [Fraction(value) for value in values[at : at + window]]
        )[-1]
        for at in range(len(sizes) - order)
    ]


def through(atom: str, sizes: Sequence[int], values: Sequence[Fraction]) -> Polynomial:
    """Returns the polynomial of lowest degree in *atom* through all of these points."""
    factors: list[Fraction] = []  # of the powers of the atom
    newton = divided_differences(sizes, values)
    for size, coefficient in zip(reversed(sizes), reversed(newton), strict=True):
        if factors or coefficient:
            shifted = zip([Fraction(0), *factors], [*factors, Fraction(0)], strict=True)
            factors = [raised - size * same for raised, same in shifted]
            factors[0] += coefficient
    return Polynomial(
        {((atom, power),) if power else ONE: factor for power, factor in enumerate(factors)}
    )


def over_grid(
    sizes: Mapping[str, Sequence[int]], values: Mapping[tuple[int, ...], int]
) -> Polynomial:
    """Returns the polynomial through every point of a grid; ``values`` has ``sizes`` as keys."""
    return _over_grid([*sizes.items()], {at: Fraction(value) for at, value in values.items()})


def _over_grid(
    axes: list[tuple[str, Sequence[int]]], values: Mapping[tuple[int, ...], Fraction]
) -> Polynomial:
    """Interpolates along the last axis, then each of the coefficients over the other axes."""
    if not axes:
        return Polynomial.constant(values[()])
    *others, (symbol, sizes) = axes
    rows = {}
    for at in product(*(axis for _, axis in others)):
        points = [(*at, size) for size in sizes]
        rows[at] = through(symbol, sizes, [values[point] for point in points])
    powers = {monomial for row in rows.values() for monomial in row.terms} | {ONE}
    total = Polynomial.constant(0)
    for monomial in sorted(powers):
        column = {at: row.terms.get(monomial, Fraction(0)) for at, row in rows.items()}
        total = total + _over_grid(others, column) * Polynomial({monomial: Fraction(1)})
    return total


def confirmed(polynomial: Polynomial, sizes: Mapping[str, Sequence[int]]) -> bool:
    """Returns True if every axis has ``CONFIRMING`` points more than the polynomial needs."""
    return all(
        polynomial.degree(symbol) + 1 + CONFIRMING <= len(values)
        for symbol, values in sizes.items()
    )


def line(symbol: str, sizes: Sequence[int], values: Sequence[int]) -> Polynomial | None:
    """Returns the form in *symbol* through all points, or ``None`` if the sizes do not show one.

    The form is a polynomial, or a polynomial of degree 1 or 2 plus one ceiling. Sizes show a form
    if the others still determine it after any ``CONFIRMING`` of them are left out: the others then
    predict each point to the byte. A ceiling needs three sizes on each side of a step, because a
    single size beyond a step agrees with any jump.
    """
    exact = [Fraction(value) for value in values]
    needed = len(sizes) - CONFIRMING
    if needed < 1 or any(divided_differences(sizes, exact)[needed:]):
        return padded(symbol, sizes, values)
    return through(symbol, sizes, exact)


def shared(symbol: str, sizes: Sequence[int], values: Sequence[int]) -> Polynomial | None:
    """Returns ``a/symbol + b + c*symbol`` through all points; ``None`` if the sizes show none.

    Each value times its size is a polynomial, which ``CONFIRMING`` points more than it needs
    confirm.
    """
    whole = [Fraction(value * size) for size, value in zip(sizes, values, strict=True)]
    found = through(symbol, sizes, whole)
    degree = found.degree(symbol)
    if degree > 2 or degree + 1 + CONFIRMING > len(sizes):
        return None
    return found * Polynomial({((symbol, -1),): Fraction(1)})


def tail(symbol: str, sizes: Sequence[int], values: Sequence[int]) -> tuple[int, Polynomial] | None:
    """Returns the index of the first size from which on the sizes show a form, and the form.

    Small sizes may follow another formula: their blocks are not full, or another phase has the
    peak. ``None`` if the largest sizes do not show a form.
    """
    for start in range(len(sizes)):
        found = line(symbol, sizes[start:], values[start:])
        if found is not None:
            return start, found
    return None


def padded(symbol: str, sizes: Sequence[int], values: Sequence[int]) -> Polynomial | None:
    """Returns a line or parabola plus a ceiling through every point.

    ``None`` if there is none, or one for each of several blocks: at 10, 20, 30, 70, 80 and 90,
    lengths padded to 32 and to 64 step at the same place.
    """
    forms = {_padded_to(block, symbol, sizes, values) for block in PADDINGS} - {None}
    return forms.pop() if len(forms) == 1 else None


def _padded_to(
    block: int, symbol: str, sizes: Sequence[int], values: Sequence[int]
) -> Polynomial | None:
    for degree in (1, 2):
        rows = [
            [*(size**power for power in range(degree + 1)), -(-size // block)] for size in sizes
        ]
        factors = solution(rows, values)
        if factors is not None and determined(rows):
            powers = [Polynomial.atom(symbol).power(power) for power in range(degree + 1)]
            return weighted([*powers, Polynomial.atom(f"ceil({symbol}/{block})")], factors)
    return None


def weighted(basis: Sequence[Polynomial], factors: Sequence[Fraction]) -> Polynomial:
    """Returns the sum of the parts of *basis*, each times its factor."""
    total = Polynomial.constant(0)
    for part, factor in zip(basis, factors, strict=True):
        total = total + part.scaled(factor)
    return total


def determined(rows: Sequence[Sequence[int | Fraction]]) -> bool:
    """Returns True if *rows* determine the factors even without any ``CONFIRMING`` of them."""
    return all(
        _eliminated([row for place, row in enumerate(rows) if place not in left_out], len(rows[0]))
        is not None
        for left_out in combinations(range(len(rows)), CONFIRMING)
    )


def solution(
    rows: Sequence[Sequence[int | Fraction]], values: Sequence[int]
) -> list[Fraction] | None:
    """Returns the factors of the columns that give *values*; ``None`` unless there is one way."""
    columns = len(rows[0])
    both: list[list[int | Fraction]] = [
        [*row, value] for row, value in zip(rows, values, strict=True)
    ]
    left = _eliminated(both, columns)
    if left is None or any(row[-1] for row in left[columns:]):
        return None
    return [Fraction(left[place][-1], left[place][place]) for place in range(columns)]


def _eliminated(rows: Sequence[Sequence[int | Fraction]], columns: int) -> list[list[int]] | None:
    """Returns equivalent *rows*, with the only value of each column in the row of its number.

    ``None`` if the columns are linearly dependent. Integers are several times as fast as fractions.
    """
    left = [_whole(row) for row in rows]
    for place in range(columns):
        found = next((n for n in range(place, len(left)) if left[n][place]), None)
        if found is None:
            return None
        left[place], left[found] = left[found], left[place]
        pivot = left[place]
        for n, row in enumerate(left):
            if n != place and row[place]:
                left[n] = _reduced(
                    [a * pivot[place] - row[place] * b for a, b in zip(row, pivot, strict=True)]
                )
    return left


def _whole(row: Sequence[int | Fraction]) -> list[int]:
    """Returns the smallest integers with the ratios of *row*."""
    scale = lcm(*(value.denominator for value in row))
    return _reduced([value.numerator * (scale // value.denominator) for value in row])


def _reduced(numbers: list[int]) -> list[int]:
    common = gcd(*numbers)
    return [number // common for number in numbers] if common > 1 else numbers


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
    rows = [[part.value(where.named(point)) for part in basis] for point in points]
    factors = solution(rows, [values[point] for point in points])
    return None if factors is None else weighted(basis, factors)
