"""The work that one read of values may still do."""

from __future__ import annotations

from ..errors import UnknownValue


class WorkLeft:
    """A count of floating-point operations, which each read begins at its limit."""

    def __init__(self) -> None:
        self._limit = self._left = 0

    def begin(self, limit: int) -> None:
        """Begins a read."""
        self._limit = self._left = limit

    def take(self, flops: int) -> None:
        """Takes the work of something that is about to run.

        Raises:
            UnknownValue: it is more than what is left.
        """
        self._left -= flops
        if self._left < 0:
            raise UnknownValue(
                "it takes more floating-point operations than --attnmem-values-limit, which is"
                f" {self._limit:.1e}"
            )
