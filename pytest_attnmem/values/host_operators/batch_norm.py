"""Batch normalisation: ATen/native/cuda/Normalization.cu and ATen/native/cudnn/BatchNorm.cpp.

CUDA keeps the statistics of half precision as float32, and those of an evaluation too.
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

aten = torch.ops.aten


def native(call: SimpleNamespace) -> tuple[torch.Tensor, ...]:
    """Returns the output, the mean [C] and the inverse deviation [C]."""
    return _normalized(call, call.running_mean, call.running_var, call.training, call.momentum)


def without_running(call: SimpleNamespace) -> tuple[torch.Tensor, ...]:
    """Returns the same of a layer that keeps no statistics."""
    return _normalized(call, None, None, call.training, call.momentum)


def with_update(call: SimpleNamespace) -> tuple[torch.Tensor, ...]:
    """Returns the same of a training step, and the space that cuDNN reserves, here none."""
    found = _normalized(call, call.running_mean, call.running_var, True, call.momentum)
    return *found, _reserve(call)


def cudnn(call: SimpleNamespace) -> tuple[torch.Tensor, ...]:
    """Returns what ``cudnn_batch_norm`` does; an evaluation gives empty statistics."""
    call.eps = call.epsilon
    running = (call.running_mean, call.running_var)
    out, *saved = _normalized(call, *running, call.training, call.exponential_average_factor)
    if not call.training:
        saved = [statistic.new_empty(0) for statistic in saved]
    return out, *saved, _reserve(call)


def native_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of input, weight and bias; None for those that are not asked."""
    saved = (call.save_mean, call.save_invstd)
    return _gradients(call, call.grad_out, saved, call.train, call.output_mask)


def with_update_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the same for ``_batch_norm_with_update``."""
    saved = (call.save_mean, call.save_var)
    return _gradients(call, call.grad_out, saved, call.update, call.output_mask)


def cudnn_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the same for ``cudnn_batch_norm``, all three."""
    call.eps = call.epsilon
    saved = (call.save_mean, call.save_var)
    return _gradients(call, call.grad_output, saved, True, [True, True, True])


def _normalized(
    call: SimpleNamespace,
    running_mean: torch.Tensor | None,
    running_var: torch.Tensor | None,
    training: bool,
    momentum: float,
) -> tuple[torch.Tensor, ...]:
    running = [_wide(running_mean), _wide(running_var)]
    out, mean, invstd = aten.native_batch_norm.default(
        _wide(call.input), _wide(call.weight), _wide(call.bias), *running, training, momentum,
        call.eps,
    )  # fmt: skip
    for target, value in zip((running_mean, running_var), running, strict=True):
        if training and target is not value and target is not None and value is not None:
            target.copy_(value)
    if not training and running[0] is not None and running[1] is not None:
        mean, invstd = running[0].clone(), (running[1] + call.eps).rsqrt()
    return out.to(call.input.dtype), mean, invstd


def _gradients(
    call: SimpleNamespace,
    grad: torch.Tensor,
    saved: tuple[torch.Tensor | None, torch.Tensor | None],
    train: bool,
    asked: list[bool],
) -> tuple[Any, ...]:
    found = aten.native_batch_norm_backward.default(
        _wide(grad), _wide(call.input), _wide(call.weight), _wide(call.running_mean),
        _wide(call.running_var), _wide(saved[0]), _wide(saved[1]), train, call.eps, asked,
    )  # fmt: skip
    of_weight = call.input.dtype if call.weight is None else call.weight.dtype
    dtypes = (call.input.dtype, of_weight, of_weight)
    return tuple(
        gradient.to(dtype) if wanted else None
        for gradient, dtype, wanted in zip(found, dtypes, asked, strict=True)
    )


def _reserve(call: SimpleNamespace) -> torch.Tensor:
    return call.input.new_empty(0, dtype=torch.uint8)  # type: ignore[no-any-return]


def _wide(tensor: torch.Tensor | None) -> torch.Tensor | None:
    return tensor if tensor is None or tensor.dtype == torch.float64 else tensor.float()


OPERATORS: Final = MappingProxyType(
    {
        "aten.native_batch_norm.default": native,
        "aten._native_batch_norm_legit.default": native,
        "aten._native_batch_norm_legit.no_stats": without_running,
        "aten._batch_norm_with_update.default": with_update,
        "aten.cudnn_batch_norm.default": cudnn,
        "aten.native_batch_norm_backward.default": native_backward,
        "aten.batch_norm_backward.default": with_update_backward,
        "aten.cudnn_batch_norm_backward.default": cudnn_backward,
    }
)
