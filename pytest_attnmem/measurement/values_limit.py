"""The limit on the work that a value may cost, on a device that computes values on demand."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from ..errors import AttnMemError

#: Floating-point operations: some ten seconds of a slow machine.
VALUES_LIMIT = "1e12"


def parse_values_limit(text: str) -> int:
    """Returns a number of floating-point operations.

    Raises:
        AttnMemError: the text is not a whole number, such as ``1e12``.
    """
    try:
        limit = Decimal(text)
    except InvalidOperation:
        limit = Decimal("NaN")
    if not limit.is_finite() or limit < 0 or limit > 10**30 or limit != int(limit):
        raise AttnMemError(
            "expected a whole number of floating-point operations, such as 1e12 or 0, got"
            f" {text!r:.60}"
        )
    return int(limit)
