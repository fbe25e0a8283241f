"""Exact polynomials through measured points, by divided differences of integers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import combinations, pairwise, product

from .polynomial import ONE, Polynomial

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
    result, basis = Polynomial.constant(0), Polynomial.constant(1)
    for size, coefficient in zip(sizes, divided_differences(sizes, values), strict=True):
        result = result + basis.scaled(coefficient)
        basis = basis * (Polynomial.atom(atom) - Polynomial.constant(size))
    return result


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
    rows = {
        at: through(symbol, sizes, [values[point] for point in _line(at, sizes)])
        for at in product(*(axis for _, axis in others))
    }
    powers = {monomial for row in rows.values() for monomial in row.terms} | {ONE}
    total = Polynomial.constant(0)
    for monomial in sorted(powers):
        column = {at: row.terms.get(monomial, Fraction(0)) for at, row in rows.items()}
        total = total + _over_grid(others, column) * Polynomial({monomial: Fraction(1)})
    return total


def _line(at: tuple[int, ...], sizes: Sequence[int]) -> list[tuple[int, ...]]:
    return [(*at, size) for size in sizes]


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
    found = through(symbol, sizes, [Fraction(value) for value in values])
    if found.degree(symbol) + 1 + CONFIRMING <= len(sizes):
        return found
    return padded(symbol, sizes, values)


def tail(symbol: str, sizes: Sequence[int], values: Sequence[int]) -> tuple[int, Polynomial] | None:
    """Returns the index of the first size from which on the sizes show a form, and the form.

    Small sizes may follow another formula: their blocks are not full, or another phase has the
    peak. ``None`` if the largest sizes do not show a form.
    """
    for start in range(len(sizes) - CONFIRMING):
        found = line(symbol, sizes[start:], values[start:])
        if found is not None:
            return start, found
    return None


def padded(symbol: str, sizes: Sequence[int], values: Sequence[int]) -> Polynomial | None:
    """Returns a line or parabola plus a ceiling through every point; ``None`` if there is none."""
    points = [{symbol: size} for size in sizes]
    for block in PADDINGS:
        if all(size % block == 0 for size in sizes):
            continue  # the ceiling is a line at these sizes
        atom = f"ceil({symbol}/{block})"
        for degree in (1, 2):
            basis = [*(Polynomial.atom(symbol).power(power) for power in range(degree + 1))]
            basis.append(Polynomial.atom(atom))
            found = combination(basis, points, values)
            if found is not None and determined(basis, points):
                return found
    return None


def determined(basis: Sequence[Polynomial], points: Sequence[Mapping[str, int]]) -> bool:
    """Returns True if the points determine *basis* even without any ``CONFIRMING`` of them."""
    if len(points) < len(basis) + CONFIRMING:
        return False
    rows = [[part.value(point) for part in basis] for point in points]
    return all(
        _independent([row for place, row in enumerate(rows) if place not in left_out])
        for left_out in combinations(range(len(rows)), CONFIRMING)
    )


def _independent(rows: Sequence[Sequence[Fraction]]) -> bool:
    """Returns True if the columns of *rows* are linearly independent."""
    left = [[*row] for row in rows]
    for column in range(len(left[0])):
        pivot = next((row for row in left if row[column]), None)
        if pivot is None:
            return False
        left.remove(pivot)
        for row in left:
            factor = row[column] / pivot[column]
            row[:] = [a - factor * b for a, b in zip(row, pivot, strict=True)]
    return True


def combination(
    basis: Sequence[Polynomial], points: Sequence[Mapping[str, int]], values: Sequence[int]
) -> Polynomial | None:
    """Returns the combination of *basis* through all points; ``None`` unless there is just one."""
    rows = [
        [*(part.value(point) for part in basis), Fraction(value)]
        for point, value in zip(points, values, strict=True)
    ]
    for place in range(len(basis)):
        pivot = next((row for row in rows[place:] if row[place]), None)
        if pivot is None:
            return None  # at these sizes it is a combination of the others
        rows.remove(pivot)
        rows.insert(place, pivot)
        for row in rows:
            if row is not pivot and row[place]:
                factor = row[place] / pivot[place]
                row[:] = [a - factor * b for a, b in zip(row, pivot, strict=True)]
    if any(row[-1] for row in rows[len(basis) :]):
        return None
    total = Polynomial.constant(0)
    for place, part in enumerate(basis):
        total = total + part.scaled(rows[place][-1] / rows[place][place])
    return total
