"""Bringing on the costs of first use."""

from __future__ import annotations

import torch


def matrix_product(device: str, dtype: torch.dtype) -> None:
    """A small matrix product, forward and backward, whose tensors are gone afterwards.

    The backward pass runs on a thread of its own where the device is not the CPU, and that thread
    has library handles and workspaces of its own.
    """
    with torch.inference_mode(False), torch.enable_grad():  # whatever the program turned off
        a = torch.ones(16, 16, dtype=dtype, device=device, requires_grad=True)
        (a @ a).softmax(-1).sum().backward()
