"""The error of PyTorch for a request that does not fit a device."""

from __future__ import annotations

import torch

from ...allocator import AllocationError
from ...units import format_size


def out_of_memory(error: AllocationError) -> torch.OutOfMemoryError:
    """Returns the error with the text of PyTorch, for programs that read it."""
    return torch.OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {format_size(error.asked)}. GPU 0 has a total"
        f" capacity of {format_size(error.capacity)} of which {format_size(error.free)} is free."
    )
