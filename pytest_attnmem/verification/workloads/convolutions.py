"""Convolutions, whose workspaces cuDNN plans."""

from __future__ import annotations

from functools import partial

import torch
from torch import nn

from ..workload import Workload
from .inputs import fp16, fp32, made, train


def _convolution(layer: type[nn.Module], shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """Runs a layer of 64 channels with windows of 3, and backward."""
    train(layer(shape[1], 64, 3, padding=1, device="cuda", dtype=dtype)(made(*shape, dtype=dtype)))


CONVOLUTIONS = (
    Workload("convolution/1d-fp16", partial(_convolution, nn.Conv1d, (8, 32, 1000), fp16)),
    Workload("convolution/2d-fp32", partial(_convolution, nn.Conv2d, (4, 32, 56, 56), fp32)),
    Workload("convolution/2d-fp16", partial(_convolution, nn.Conv2d, (8, 64, 56, 56), fp16)),
    Workload(
        "convolution/transposed-fp16",
        partial(_convolution, nn.ConvTranspose2d, (4, 64, 28, 28), fp16),
    ),
)
