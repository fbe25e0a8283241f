"""Numbers that a user gives, exact: positive, finite, or refused in one line."""

from __future__ import annotations

from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Final, TypeAlias

from ..errors import BudgetError
from ..units import shown

#: What callers write: 7, 7e9, 0.5 or a fraction.
Number: TypeAlias = float | Fraction

#: Within these no product or quotient that is made of them leaves the range of a float.
LARGEST: Final = 10**30
SMALLEST: Final = Fraction(1, LARGEST)


def positive(name: str, value: object) -> Fraction:
    """The number, exactly; a float stands for the decimal that Python prints of it.

    Raises:
        BudgetError: it is no number, or not from 1e-30 to 1e30.
    """
    exact = _exact(value)
    if exact is None or not SMALLEST <= exact <= LARGEST:
        raise BudgetError(f"{name}: expected a number from 1e-30 to 1e30, got {shown(value)}")
    return exact


def whole(name: str, value: object) -> int:
    """The whole number, which ``7e9`` is too.

    Raises:
        BudgetError: it is none, or not from 1 to 1e30.
    """
    exact = _exact(value)
    if exact is None or exact.denominator != 1 or not 1 <= exact <= LARGEST:
        raise BudgetError(f"{name}: expected a whole number from 1 to 1e30, got {shown(value)}")
    return exact.numerator


def _exact(value: object) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    if isinstance(value, Integral):
        return Fraction(int(value))
    if isinstance(value, Rational):
        return Fraction(value)
    try:
        return Fraction(repr(float(value)))
    except (ValueError, OverflowError):  # nan and inf, and what is too large to be a float
        return None
