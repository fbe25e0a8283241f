"""The dtype in which CUDA computes: ``at::acc_type`` of ATen/AccumulateType.h."""

from __future__ import annotations

import torch


def wide(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a tensor as float32; one of float64 as it is."""
    return tensor if tensor.dtype == torch.float64 else tensor.float()
