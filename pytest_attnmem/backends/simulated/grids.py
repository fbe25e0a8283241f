"""Grids of affine maps, which ATen composes, and samples at the places of grids.

Sources: AffineGridGenerator.cpp, GridSampler.cpp and GridSamplerUtils.h of aten/src/ATen/native.
"""

from __future__ import annotations

from typing import Any, Final

import torch

from .dispatch import in_cpp

_aten = torch.ops.aten
_MOST_CHANNELS: Final = 1024
_CUDNN_DTYPES: Final = (torch.float16, torch.float32, torch.float64)


def sampled(input: Any, grid: Any, interpolation: int, padding: int, align_corners: bool) -> Any:
    """Samples images by cuDNN where CUDA does: bilinear, zeros outside, and corners aligned."""
    by_cudnn = not (interpolation or padding) and align_corners and _cudnn_takes(input, grid)
    if by_cudnn:
        return _aten.cudnn_grid_sampler.default(input, grid)
    return in_cpp(_aten.grid_sampler.default, input, grid, interpolation, padding, align_corners)


def _cudnn_takes(input: Any, grid: Any) -> bool:
    return (
        torch.backends.cudnn.enabled
        and input.is_cuda
        and input.dtype in _CUDNN_DTYPES
        and input.dim() == 4
        and input.shape[1] <= _MOST_CHANNELS
        and 0 < input.numel() < 2**31
        and 0 < grid.numel() < 2**31
    )


def cudnn_samples(input: Any, grid: Any) -> Any:
    """Returns an output of cuDNN's shape and layout."""
    return input.new_empty((*input.shape[:2], *grid.shape[1:3]))


def cudnn_gradients(input: Any, grid: Any, _: Any) -> tuple[Any, Any]:
    """Returns gradients of cuDNN's shapes and layouts."""
    return input.new_empty(input.shape), grid.new_empty(grid.shape)
