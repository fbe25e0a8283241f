"""Errors on the null device that no other device raises: what they need is missing there."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import FrameType, MappingProxyType
from typing import Final

from ..nulldevice.launch import present

#: What is missing, by the beginning of PyTorch's error; the first that fits.
_MISSING = MappingProxyType(
    {
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED": "cuDNN cannot plan this without a GPU: it must"
        " be 9.8 or newer, and TORCH_CUDNN_V8_API_DISABLED must not be set",
        "CUDA error: operation not supported when calling `cusp": "there is no cuSPARSE: its"
        " scratch is known only on a GPU",
        "CUDA error: operation not supported": "no CUDA graph can be captured",
    }
)
#: The code of PyTorch that gives tensors to other processes, and what is missing there.
_SHARES: Final = "torch/multiprocessing/reductions.py"
_UNSHARED: Final = "no tensor can be given to another process; give a copy on the host, x.cpu()"


def missing_on_null(error: BaseException) -> str:
    """Returns what the null device lacks for the program that raised ``error``; else ""."""
    for beginning, missing in _MISSING.items():
        if str(error).startswith(beginning) and present() is not None:
            shares = any(frame.f_code.co_filename.endswith(_SHARES) for frame in _frames(error))
            return f"on null:{present()} {_UNSHARED if shares else missing}"
    return ""


def _frames(error: BaseException) -> Iterator[FrameType]:
    return (frame for frame, _ in traceback.walk_tb(error.__traceback__))
