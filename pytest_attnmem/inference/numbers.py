"""Numbers that a user gives: read, and refused in one line that names them as the user does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Final, TypeAlias

from ..errors import BudgetError
from ..units import shown

#: The types of a number that callers write: 7, 7e9, 0.5 or a fraction.
Number: TypeAlias = float | Fraction

#: Within these bounds, no product or quotient of the numbers leaves the range of a float.
LARGEST: Final = 10**30
SMALLEST: Final = Fraction(1, LARGEST)


def exact(label: str, value: object) -> Fraction:
    """Returns a number such as the bytes of an element exactly; 0.1 is a tenth.

    Raises:
        BudgetError: it is not a number, or not from 1e-30 to 1e30.
    """
    found = _exact(value)
    if found is None or not SMALLEST <= found <= LARGEST:
        raise BudgetError(f"{label}: expected a number from 1e-30 to 1e30, got {shown(value)}")
    return found


def positive(label: str, value: object) -> float:
    """Returns a rate or a count of FLOPs.

    Raises:
        BudgetError: it is not a number, or not from 1e-30 to 1e30.
    """
    return float(exact(label, value))


def whole(label: str, value: object) -> int:
    """Returns a whole number; ``7e9`` is one too.

    Raises:
        BudgetError: it is not a whole number from 1 to 1e30.
    """
    found = _exact(value)
    if found is None or found.denominator != 1 or not 1 <= found <= LARGEST:
        raise BudgetError(f"{label}: expected a whole number from 1 to 1e30, got {shown(value)}")
    return found.numerator


@dataclass(frozen=True, slots=True)
class Given:
    """The numbers that a user gave by name; ``None`` counts as not given.

    ``labels`` has the names that messages use, where the user knows a number by another name.
    """

    values: Mapping[str, object]
    labels: Mapping[str, str] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return self.values.get(name) is not None

    def label(self, name: str) -> str:
        """Returns the name that the user knows a number by."""
        return self.labels.get(name, name)

    def whole(self, name: str, default: int | None = None) -> int:
        """Returns the whole number with this name; see :func:`whole`."""
        given = name in self or default is None
        return whole(self.label(name), self.values.get(name) if given else default)

    def exact(self, name: str, default: int | Fraction) -> Fraction:
        """Returns the number with this name; see :func:`exact`."""
        return exact(self.label(name), self.values[name] if name in self else default)


def _exact(value: object) -> Fraction | None:
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    if isinstance(value, Integral):
        return Fraction(int(value))
    if isinstance(value, Rational):
        return Fraction(value)
    try:
        return Fraction(repr(float(value)))
    except (ValueError, OverflowError):  # nan and inf, and numbers too large for a float
        return None
