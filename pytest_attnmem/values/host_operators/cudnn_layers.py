"""cuDNN's grids and its loss of connectionist temporal classification.

Sources: ATen/native/cudnn/{AffineGridGenerator,GridSampler,LossCTC}.cpp. Grids are bilinear, with
zeros outside the image and aligned corners.
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


def loss(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the costs [B] of CTC, and the gradient of ``log_probs`` [T, B, C]."""
    lengths = [list(map(int, one)) for one in (call.input_lengths, call.target_lengths)]
    inputs = (call.log_probs, call.targets, *lengths)
    costs, alphas = aten._ctc_loss.default(*inputs, call.blank, call.zero_infinity)
    grad = aten._ctc_loss_backward.default(
        torch.ones_like(costs), *inputs, costs, alphas, call.blank, call.zero_infinity
    )
    return costs, grad


OPERATORS: Final = MappingProxyType(
    {
        "aten.cudnn_grid_sampler.default": sample,
        "aten.cudnn_grid_sampler_backward.default": sample_backward,
        "aten.cudnn_affine_grid_generator.default": affine,
        "aten.cudnn_affine_grid_generator_backward.default": affine_backward,
        "aten._cudnn_ctc_loss.default": loss,
        "aten._cudnn_ctc_loss.Tensor": loss,
    }
)
