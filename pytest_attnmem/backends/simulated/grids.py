"""Grids of affine maps, which ATen composes, and samples at the places of grids.

Sources: AffineGridGenerator.cpp, GridSampler.cpp and GridSamplerUtils.h of aten/src/ATen/native.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final

import torch

from .dispatch import in_cpp

_aten = torch.ops.aten
_MOST_CHANNELS: Final = 1024
_CUDNN_DTYPES: Final = (torch.float16, torch.float32, torch.float64)


def _steps(like: Any, count: int, align_corners: bool) -> Any:
    """Returns the places from -1 to 1."""
    if count <= 1:
        return like.new_zeros(())
    places = torch.linspace(-1, 1, count, dtype=like.dtype, device=like.device)
    return places if align_corners else places * (count - 1) / count


def _places(like: Any, size: Sequence[int], align_corners: bool) -> Any:
    """Returns the places of an output of ``size``, [N, C, (D,) H, W], as [N, places, axes + 1]."""
    batch, _, *sides = size
    places = like.new_empty((batch, *sides, len(sides) + 1))
    for axis, side in enumerate(reversed(sides)):
        steps = _steps(like, side, align_corners)
        places.select(-1, axis).copy_(steps.view(-1, *[1] * axis))
        del steps
    places.select(-1, -1).fill_(1)
    return places.view(batch, prod(sides), -1)


def _grid(theta: Any, size: Sequence[int], align_corners: bool) -> Any:
    """Returns the places of an output, mapped by ``theta``."""
    mapped = _places(theta, size, align_corners).bmm(theta.transpose(1, 2))
    return mapped.view(size[0], *size[2:], -1)


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


#: The functions by operator.
GRIDS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {_aten.affine_grid_generator.default: _grid}
)
