"""The time at which a collective of ``ProcessGroupNCCL`` lets its tensors go."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist


def release(out: Any) -> None:
    """Lets a collective of DDP's reducer go, which else holds its bucket for some time.

    The reducer waits for a future and not for the work, so a thread of ``ProcessGroupNCCL``
    lets the bucket go, at a time of its own. It is as early as possible here, as for streams.
    """
    work = out[-1] if isinstance(out, tuple) else out
    if isinstance(work, torch.ScriptObject) and called_by_reducer(sys._getframe(1)):
        dist.Work.unbox(work).wait()


def called_by_reducer(frame: FrameType | None) -> bool:
    """Returns True if C++ code on autograd's thread, or DDP's Python code, called an operator."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if not name.startswith(("pytest_attnmem.", "torch._ops")):
            return name.startswith("torch.nn.parallel.")
        frame = frame.f_back
    return True
