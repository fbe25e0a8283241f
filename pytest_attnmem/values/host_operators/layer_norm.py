"""Layer and RMS normalisation: ATen/native/cuda/layer_norm_kernel.cu.

CUDA keeps the statistics of half precision as float32.
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

aten = torch.ops.aten


def layer(call: SimpleNamespace) -> tuple[torch.Tensor, ...]:
    """Returns the output, the mean and the inverse deviation."""
    out, *saved = aten.native_layer_norm.default(
        _wide(call.input), call.normalized_shape, _wide(call.weight), _wide(call.bias), call.eps
    )
    return out.to(call.input.dtype), *saved


def layer_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of input, weight and bias; None for those that are not asked."""
    found = aten.native_layer_norm_backward.default(
        _wide(call.grad_out), _wide(call.input), call.normalized_shape, _wide(call.mean),
        _wide(call.rstd), _wide(call.weight), _wide(call.bias), call.output_mask,
    )  # fmt: skip
    return tuple(
        None if gradient is None else gradient.to((call.input if of is None else of).dtype)
        for gradient, of in zip(found, (call.input, call.weight, call.bias), strict=True)
    )


def rms(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns ``x / sqrt(mean(x²) + eps) * weight`` and the inverse root, for the backward."""
    wide = call.input if call.input.dtype == torch.float64 else call.input.float()
    eps = torch.finfo(wide.dtype).eps if call.eps is None else call.eps
    rstd = (wide.square().mean(_dims(call), keepdim=True) + eps).rsqrt()
    out = wide * rstd if call.weight is None else wide * rstd * call.weight
    return out.to(call.input.dtype), rstd


def rms_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of input and weight; None for those that are not asked."""
    grad = call.grad_out if call.grad_out.dtype == torch.float64 else call.grad_out.float()
    normal = call.input * call.rstd
    scaled = grad if call.weight is None else grad * call.weight
    of_input = call.rstd * (scaled - normal * (scaled * normal).mean(_dims(call), keepdim=True))
    of_weight = None
    if call.output_mask[1] and call.weight is not None:
        of_weight = (grad * normal).sum_to_size(call.weight.shape).to(call.weight.dtype)
    return of_input.to(call.input.dtype) if call.output_mask[0] else None, of_weight


def _dims(call: SimpleNamespace) -> list[int]:
    return list(range(-len(call.normalized_shape), 0))


def _wide(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return tensor if tensor is None or tensor.dtype == torch.float64 else tensor.float()


OPERATORS: Final = MappingProxyType(
    {
        "aten.native_layer_norm.default": layer,
        "aten.native_layer_norm_backward.default": layer_backward,
        "aten._fused_rms_norm.default": rms,
        "aten._fused_rms_norm_backward.default": rms_backward,
    }
)
