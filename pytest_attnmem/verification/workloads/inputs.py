"""The tensors that workloads start from; their values do not matter, so they are not written."""

from __future__ import annotations

import torch

fp64, fp32 = torch.float64, torch.float32
fp16, bf16 = torch.float16, torch.bfloat16


def made(*shape: int, dtype: torch.dtype = fp32, grad: bool = True) -> torch.Tensor:
    """Returns a tensor of this shape on the device; a leaf that takes gradients if ``grad``."""
    return torch.empty(shape, device="cuda", dtype=dtype, requires_grad=grad)


def tokens(rows: int, length: int, vocabulary: int) -> torch.Tensor:
    """Returns valid indices ``[rows, length]``."""
    return torch.randint(vocabulary, (rows, length), device="cuda")


def train(out: torch.Tensor) -> None:
    """Runs backward from an output with a gradient of its own shape."""
    out.backward(torch.empty_like(out))
