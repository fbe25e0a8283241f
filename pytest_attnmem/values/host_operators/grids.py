"""cuDNN's grids: ATen/native/cudnn/{AffineGridGenerator,GridSampler}.cpp.

They are bilinear, with zeros outside the image and aligned corners.
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

aten = torch.ops.aten


def sample(call: SimpleNamespace) -> Any:
    """Returns the samples of ``self`` at ``grid``."""
    return aten.grid_sampler_2d.default(call.self, call.grid, 0, 0, True)


def sample_backward(call: SimpleNamespace) -> Any:
    """Returns the gradients of ``self`` and ``grid``."""
    return aten.grid_sampler_2d_backward.default(
        call.grad_output, call.self, call.grid, 0, 0, True, [True, True]
    )


def affine(call: SimpleNamespace) -> Any:
    """Returns the grid [N, H, W, 2] of ``theta``."""
    return aten.affine_grid_generator.default(call.theta, [call.N, call.C, call.H, call.W], True)


def affine_backward(call: SimpleNamespace) -> Any:
    """Returns the gradient of ``theta``, [N, 2, 3]."""
    size = [call.N, call.C, call.H, call.W]
    return aten.affine_grid_generator_backward.default(call.grad, size, True)


OPERATORS: Final = MappingProxyType(
    {
        "aten.cudnn_grid_sampler.default": sample,
        "aten.cudnn_grid_sampler_backward.default": sample_backward,
        "aten.cudnn_affine_grid_generator.default": affine,
        "aten.cudnn_affine_grid_generator_backward.default": affine_backward,
    }
)
