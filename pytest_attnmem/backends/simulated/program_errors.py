"""The errors of a simulated program: one line, with the call and its place."""

from __future__ import annotations

import sys

from ...errors import CannotSimulate
from ..ranks import checks_agreement
from ..tracing.dispatch_tracker import caller


class ProgramErrors:
    """The errors of one window; the first of them is why its numbers are not enforced."""

    def __init__(self) -> None:
        self.first: str | None = None
        """The text of the first error."""

    def clear(self) -> None:
        """Begins a window."""
        self.first = None

    def record(self, text: str) -> CannotSimulate:
        """Keeps an error and returns it."""
        self.first = self.first or text
        return CannotSimulate(text)

    def assumed(self, assumption: str) -> None:
        """Records that the program reads a value that rests on an assumption.

        PyTorch's own checks that ranks agree pass by design.
        """
        if not checks_agreement(sys._getframe(1)):
            self.record(f"a value was read{at()}: {assumption}")

    def unknown_values(self, why: str) -> CannotSimulate:
        """Returns the error for a program that reads values which nobody knows."""
        return self.record(
            f"the program needs the values of a tensor{at()}, which are not known: {why}; use"
            " backend='cpu' for this test"
        )


def at() -> str:
    """Returns `` at attn.py:5``, the line of the program, or an empty text."""
    where = caller()
    return f" at {where}" if where else ""
