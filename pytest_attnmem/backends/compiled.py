"""Noticing that compiled code runs eagerly, as it does under any dispatch mode.

This is the one place outside of the simulation that uses these private APIs of ``torch.compile``
(written against torch 2.13).
"""

from __future__ import annotations

import sys
from typing import Any

#: Where torch decides what a call of a compiled function does; imported by the first compilation.
_MODULE, _DECISION = "torch._dynamo.eval_frame", "_callback_from_stance"


class CompileWatch:
    """Notices calls of compiled functions."""

    def __init__(self) -> None:
        self.noticed = False
        """Whether there was one since ``start``."""
        self._kept: Any = None

    def start(self) -> None:
        """Begin to watch."""
        self.noticed = False
        module = sys.modules.get(_MODULE)
        self._kept = getattr(module, _DECISION, None)
        if self._kept is not None:
            setattr(module, _DECISION, self._deciding)

    def stop(self) -> None:
        """Watch no longer."""
        if self._kept is not None:
            setattr(sys.modules[_MODULE], _DECISION, self._kept)
            self._kept = None

    def _deciding(self, callback: Any) -> Any:
        if callback not in (None, False):
            self.noticed = True
        return self._kept(callback)
