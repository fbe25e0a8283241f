"""The sizes that profiling functions take, seen to be sizes."""

from __future__ import annotations

from collections.abc import Iterable
from numbers import Integral

from ..errors import BudgetError
from ..units import shown


def whole(function: str, **sizes: object) -> list[int]:
    """The sizes, in their order.

    Raises:
        BudgetError: one is no whole number of at least 1.
    """
    for name, size in sizes.items():
        if not isinstance(size, Integral) or isinstance(size, bool) or size < 1:
            raise BudgetError(
                f"{function} needs {name} to be a whole number >= 1, got {shown(size)}"
            )
    return [int(size) for size in sizes.values()]  # type: ignore[call-overload]


def lengths(function: str, seq_lengths: Iterable[int]) -> list[int]:
    """The sequence lengths, in their order.

    Raises:
        BudgetError: there is none, or one is no whole number of at least 1.
    """
    if isinstance(seq_lengths, str) or not isinstance(seq_lengths, Iterable):
        raise BudgetError(
            f"{function} needs seq_lengths to be a list of sizes, such as [512, 1024],"
            f" got {shown(seq_lengths)}"
        )
    found = [whole(function, seq_len=seq_len)[0] for seq_len in seq_lengths]
    if not found:
        raise BudgetError(f"{function} needs at least one of seq_lengths, got none")
    return found
