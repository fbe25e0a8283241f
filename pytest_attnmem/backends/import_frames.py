"""Frees the frames that the import of ``torch._dynamo`` leaves behind.

``torch.fx.wrap`` (torch/fx/_symbolic_trace.py), which that import calls, keeps its own frame in a
local variable: a cycle. It holds the frames of all callers, with their tensors, until a collection.
The retained bytes of a test would be larger if it is the first that imports the module, as
optimizers and checkpoints do.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

from .import_watch import after_import

_MODULE: Final = "torch._dynamo"


@contextmanager
def import_frames_freed() -> Iterator[None]:
    """Frees these frames if the body imports the module; it collects no other garbage."""
    if _MODULE in sys.modules:
        yield
        return
    give_up = after_import(_MODULE, lambda _: _free())
    try:
        yield
    finally:
        give_up()


def _free() -> None:
    from torch.fx import wrap

    for found in gc.get_objects():
        if type(found) is FrameType and found.f_code is wrap.__code__:
            found.clear()
