"""Polynomials that are never the largest of several, proved from their coefficients."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import combinations_with_replacement

from .polynomial import Polynomial

#: The most polynomials that are compared with pairs of the others, and with multiples of them.
_MOST, _MOST_MULTIPLIED = 64, 16


def envelope(
    candidates: Iterable[Polynomial], least: Mapping[str, int], otherwise: int = 2
) -> tuple[Polynomial, ...]:
    """Returns the candidates that may be the largest somewhere, in their order.

    Symbols are at least ``least``, or ``otherwise``. A candidate c is left out where two others
    a and b have ``w*m*(a - c) + (b - c) >= 0`` for a number w >= 0 and a product m of symbols: then
    one of them is as large as c. A polynomial is never negative if it has no negative coefficient
    in what its symbols exceed their least by.
    """
    kept = [*dict.fromkeys(candidates)]
    for factors in (0, 2):
        if len(kept) > (_MOST_MULTIPLIED if factors else _MOST):
            break
        for one in reversed(kept[1:] + kept[:1]):  # the first is the largest at usual sizes
            above = [(other - one).shifted(least, otherwise) for other in kept if other != one]
            names = [name for name in one.atoms if name.isidentifier()]
            if _bounded(above, [*_products(names, least, otherwise, factors)]):
                kept.remove(one)
    return tuple(kept)


def _products(
    names: Sequence[str], least: Mapping[str, int], otherwise: int, factors: int
) -> Iterator[Polynomial]:
    """Yields 1 and the products of up to ``factors`` symbols, shifted as the polynomials are."""
    for count in range(factors + 1):
        for chosen in combinations_with_replacement(names, count):
            made = Polynomial.constant(1)
            for name in chosen:
                made = made * Polynomial.atom(name)
            yield made.shifted(least, otherwise)


def _bounded(above: list[Polynomial], multipliers: list[Polynomial]) -> bool:
    """Returns True if at no sizes all of the differences are negative, as far as is proved."""
    if any(all(value >= 0 for value in one.terms.values()) for one in above):
        return True
    return any(
        _sum_is_positive(first * multiplier, second)
        for first in above
        for second in above
        for multiplier in multipliers
        if first is not second
    )


def _sum_is_positive(first: Polynomial, second: Polynomial) -> bool:
    """Returns True if ``w*first + second`` has no negative coefficient for some w >= 0."""
    low, high, zero = Fraction(0), None, Fraction(0)
    for monomial in {**first.terms, **second.terms}:
        slope, base = first.terms.get(monomial, zero), second.terms.get(monomial, zero)
        if slope > 0:
            low = max(low, -base / slope)
        elif slope < 0:
            high = base / -slope if high is None else min(high, base / -slope)
        elif base < 0:
            return False
    return high is None or low <= high
