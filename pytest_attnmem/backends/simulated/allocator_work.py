"""The work of an allocator, which the frees of a collection of garbage must not interrupt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class AllocatorWork:
    """A context for each call of the allocator.

    A collection may begin in the middle of it, outside windows or where a program enables it, and
    free tensors. Their blocks wait for its end.
    """

    def __init__(self, free: Callable[[Any], None]) -> None:
        self.running = False
        self.waiting: list[Any] = []
        """The blocks to free at the end."""
        self._free = free

    def __enter__(self) -> None:
        self.running = True

    def __exit__(self, *_: object) -> None:
        self.running = False
        while self.waiting:
            self._free(self.waiting.pop(0))
