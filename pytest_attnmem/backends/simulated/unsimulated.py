"""Notes the compiled code of a program, which no simulation follows; it runs eagerly."""

from __future__ import annotations

from typing import Any

import torch
from torch._dynamo import eval_frame  # now: an import in a window leaves frames with tensors


class Unsimulated:
    """The compilations of one window."""

    def __init__(self) -> None:
        self._compiled = False

    def start(self) -> None:
        """Begins a window."""
        self._compiled = False

    def problem(self) -> str | None:
        """Returns why the numbers may be wrong."""
        return "compiled code cannot be simulated" if self._compiled else None

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the patches that note compilations, by owner and name."""

        def compile(model: Any = None, **options: Any) -> Any:
            if not options.get("disable") and options.get("backend") != "eager":
                self._compiled = True
            return (lambda function: function) if model is None else model

        decide = eval_frame._callback_from_stance

        def eager(callback: Any) -> Any:
            if decide(callback) not in (None, False):
                self._compiled = True
            return None

        return {
            (torch, "compile"): compile,
            (eval_frame, "_callback_from_stance"): eager,
        }
