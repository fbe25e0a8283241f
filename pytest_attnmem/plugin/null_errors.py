"""Errors on the null device that no other device raises: what they need is missing there."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from ..errors import causes
from ..nulldevice.counts import last_unknown_call
from ..nulldevice.launch import present
from ..nulldevice.refusals import refusal, remedy

#: What is missing, by the beginning of PyTorch's error, where the last call does not say it.
_MISSING: Final = MappingProxyType(
    {
        # A library of stubs has its own name in the place of an error's.
        "cuDNN error: libcudnn": "cuDNN is not installed",
        "CUDA NVRTC error: libnvrtc": "NVRTC is not installed",
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED": "cuDNN cannot plan this without a GPU: it must"
        " be 9.8 or newer, and TORCH_CUDNN_V8_API_DISABLED must not be set",
        "CUDA error: operation not supported": "no CUDA graph can be captured",
        "CUDA error: <cudaError_t.cudaErrorNotSupported": "this is not known",  # of cuda.bindings
    }
)


def missing_on_null(error: BaseException) -> str:
    """Returns what the null device lacks for the program that raised ``error``; else ""."""
    running = present()
    if running is None:
        return ""
    if any(_wants_triton(cause) for cause in causes(error)):
        return f"on null:{running} Triton is not installed: {remedy('triton')}"
    for beginning, missing in _MISSING.items():
        if str(error).startswith(beginning):
            return f"on null:{running} {refusal(last_unknown_call()) or missing}"
    return ""


def _wants_triton(error: BaseException) -> bool:
    """Returns True for the error of an import, and for that of a compiler."""
    missing = isinstance(error, ModuleNotFoundError) and error.name == "triton"
    return missing or type(error).__name__ == "TritonMissing"  # of torch._inductor.exc
