"""The sequence lengths that profiling functions take, checked."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import BudgetError
from ..symbols.sizes import as_size
from ..units import shown


def lengths(function: str, seq_lengths: Iterable[int]) -> list[int]:
    """Returns the sequence lengths in their order.

    Raises:
        BudgetError: there are none, or one is not a whole number >= 1.
    """
    if isinstance(seq_lengths, str) or not isinstance(seq_lengths, Iterable):
        raise BudgetError(
            f"{function} needs seq_lengths to be a list of sizes, such as [512, 1024],"
            f" got {shown(seq_lengths)}"
        )
    found = [as_size(function, "seq_len", seq_len) for seq_len in seq_lengths]
    if not found:
        raise BudgetError(f"{function} needs at least one of seq_lengths, got none")
    return found
