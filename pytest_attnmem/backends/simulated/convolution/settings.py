"""The settings of cuDNN that a program makes and convolutions read."""

from __future__ import annotations

from typing import NamedTuple

import torch


class CudnnSettings(NamedTuple):
    """The settings of ``torch.backends.cudnn`` that are in force."""

    enabled: bool
    benchmark: bool
    deterministic: bool
    tf32: bool


def cudnn_settings() -> CudnnSettings:
    """Returns the settings of the process (``at::convolution`` in Convolution.cpp reads them)."""
    return CudnnSettings(
        torch._C._get_cudnn_enabled(),
        torch._C._get_cudnn_benchmark(),
        torch._C._get_cudnn_deterministic() or torch._C._get_deterministic_algorithms(),
        torch._C._get_fp32_precision_getter("cuda", "conv") == "tf32",
    )
