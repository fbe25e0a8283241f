"""Small programs: the allocations of first use, and a block of a known size."""

from __future__ import annotations

import torch


def matrix_product(device: str, dtype: torch.dtype) -> None:
    """Runs a small matrix product, forward and backward, and frees its tensors.

    The backward pass of a device other than the CPU runs on a thread of its own, which has its own
    library handles and workspaces.
    """
    with torch.inference_mode(False), torch.enable_grad():  # the program may have turned them off
        a = torch.ones(16, 16, dtype=dtype, device=device, requires_grad=True)
        (a @ a).softmax(-1).sum().backward()


def storage(device: str, nbytes: int) -> torch.UntypedStorage:
    """Returns a block of memory, allocated without operators: no mode and no default sees it."""
    return torch.UntypedStorage(nbytes, device=device)
