"""What one window could not know about the scratch of its operators."""

from __future__ import annotations

from typing import Final

_SHOWN: Final = 20


class UnknownScratch:
    """The operators without a model, and the first reason why a model knows no size."""

    def __init__(self) -> None:
        self._ops: dict[str, bool] = {}  # in the order of their first calls
        self._reason = ""

    def mark(self, op: str) -> None:
        """Records an operator whose scratch no model knows."""
        self._ops[op] = True

    def explain(self, reason: str) -> None:
        """Records why the scratch of a call is unknown whose operator has a model."""
        self._reason = self._reason or reason

    def clear(self) -> None:
        """Begins a window."""
        self._ops.clear()
        self._reason = ""

    @property
    def problem(self) -> str | None:
        """Returns why the numbers may be wrong."""
        ops = [*self._ops]
        if ops:
            more = f" and {len(ops) - _SHOWN} more" if len(ops) > _SHOWN else ""
            return f"no model of {', '.join(ops[:_SHOWN])}{more}; use backend='null' or 'cuda'"
        return self._reason or None
