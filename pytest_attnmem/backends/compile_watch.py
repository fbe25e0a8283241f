"""Noticing calls of compiled code, which runs eagerly under any dispatch mode.

No other module outside the simulation uses these private APIs of ``torch.compile`` (torch 2.13).
"""

from __future__ import annotations

import sys
from typing import Any

#: The module and function that choose the code that a compiled function runs; the first
#: compilation imports the module.
_MODULE, _DECISION = "torch._dynamo.eval_frame", "_callback_from_stance"

#: The reason why a tracker's numbers may differ from those of the program.
EAGER = "compiled code runs eagerly under a tracker"


class CompileWatch:
    """Notices calls of compiled functions.

    With ``eager`` they run uncompiled. Under a dispatch mode they do so anyway, but Dynamo then
    marks their code, and runs it uncompiled for the rest of the process.
    """

    def __init__(self, *, eager: bool = False) -> None:
        self._eager = eager
        self.noticed = False
        """True if compiled code was called since ``start``."""
        self._kept: Any = None

    def start(self) -> None:
        """Begins to watch."""
        self.noticed = False
        module = sys.modules.get(_MODULE)
        self._kept = getattr(module, _DECISION, None)
        if self._kept is not None:
            setattr(module, _DECISION, self._deciding)

    def stop(self) -> None:
        """Stops watching."""
        if self._kept is not None:
            setattr(sys.modules[_MODULE], _DECISION, self._kept)
            self._kept = None

    def _deciding(self, callback: Any) -> Any:
        if callback not in (None, False):
            self.noticed = True
            if self._eager:
                return None
        return self._kept(callback)
