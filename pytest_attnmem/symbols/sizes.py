"""Sizes that a user gives, checked."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral

from ..errors import BudgetError
from ..units import shown


def as_sizes(function: str, given: Mapping[str, object], *, bits: int | None = None) -> list[int]:
    """Returns the sizes of a function in their order; see :func:`as_size`."""
    return [as_size(function, name, value, bits=bits) for name, value in given.items()]


def as_size(function: str, name: str, value: object, *, bits: int | None = None) -> int:
    """Returns the size *name* of a function as an ``int``; an integer of numpy is one too.

    Raises:
        BudgetError: it is not a whole number >= 1, or not below 2 to the power of ``bits``.
    """
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    found = int(value) if whole else 0  # type: ignore[call-overload]
    if found < 1 or (bits is not None and found >> bits):
        below = "" if bits is None else f" and < 2**{bits}"
        raise BudgetError(
            f"{function} needs {name} to be a whole number >= 1{below}, got {shown(value)}"
        )
    return found
