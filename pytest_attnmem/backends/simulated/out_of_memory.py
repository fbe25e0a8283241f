"""The error of PyTorch for a request that does not fit a device."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import torch

from ...allocator import AllocationError

_UNITS: Final = MappingProxyType({10: "KiB", 20: "MiB", 30: "GiB"})
_ADVICE: Final = (
    "If reserved but unallocated memory is large try setting"
    " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation"
    " for Memory Management "
    " (https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)


def out_of_memory(error: AllocationError) -> torch.OutOfMemoryError:
    """Returns the error with the text of PyTorch, for programs that read it.

    See ``CUDACachingAllocator.cpp``; the memory of other processes is left out.
    """
    asked, capacity, free, allocated, pieces = map(
        _size,
        (
            *(error.segment, error.capacity, error.free, error.allocated),
            error.reserved - error.allocated,
        ),
    )
    if error.asked >= 1 << 60:
        return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate more than 1EB memory.")
    return torch.OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of {capacity}"
        f" of which {free} is free. Of the allocated memory {allocated} is allocated by PyTorch,"
        f" and {pieces} is reserved by PyTorch but unallocated. {_ADVICE}"
    )


def _size(nbytes: int) -> str:
    """Returns bytes as ``c10::CachingAllocator::format_size`` writes them."""
    if nbytes <= 1 << 10:
        return f"{nbytes} bytes"
    exponent = min(30, (nbytes - 1).bit_length() - 1) // 10 * 10
    return f"{nbytes / (1 << exponent):.2f} {_UNITS[exponent]}"
