"""Errors on the null device that no other device raises: what they need is missing there."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from ..nulldevice.counts import last_unknown_call
from ..nulldevice.launch import present
from ..nulldevice.refusals import refusal

#: What is missing, by the beginning of PyTorch's error, where the last call does not say it.
_MISSING: Final = MappingProxyType(
    {
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED": "cuDNN cannot plan this without a GPU: it must"
        " be 9.8 or newer, and TORCH_CUDNN_V8_API_DISABLED must not be set",
        "CUDA error: operation not supported": "no CUDA graph can be captured",
        "CUDA error: <cudaError_t.cudaErrorNotSupported": "this is not known",  # of cuda.bindings
    }
)


def missing_on_null(error: BaseException) -> str:
    """Returns what the null device lacks for the program that raised ``error``; else ""."""
    for beginning, missing in _MISSING.items():
        if str(error).startswith(beginning) and present() is not None:
            return f"on null:{present()} {refusal(last_unknown_call()) or missing}"
    return ""
