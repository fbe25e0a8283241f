"""Batch, layer and RMS normalisation, and the steps of ``SyncBatchNorm``.

Sources: ATen/native/cuda/{Normalization.cu,Normalization.cuh,layer_norm_kernel.cu} and
ATen/native/cudnn/BatchNorm.cpp. CUDA keeps the statistics of half precision as float32, and those
of an evaluation too. Those of ``SyncBatchNorm`` are float32, float64 for float64, [C]; of all
processes [processes, C].
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

from ..wide_dtype import wide

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
    running = _all_wide(running_mean, running_var)
    of_layer = _all_wide(call.input, call.weight, call.bias)
    out, mean, invstd = aten.native_batch_norm.default(
        *of_layer, *running, training, momentum, call.eps
    )
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
    running = (call.running_mean, call.running_var)
    tensors = _all_wide(grad, call.input, call.weight, *running, *saved)
    found = aten.native_batch_norm_backward.default(*tensors, train, call.eps, asked)
    of_weight = call.input.dtype if call.weight is None else call.weight.dtype
    dtypes = (call.input.dtype, of_weight, of_weight)
    return tuple(
        gradient.to(dtype) if wanted else None
        for gradient, dtype, wanted in zip(found, dtypes, asked, strict=True)
    )


def _reserve(call: SimpleNamespace) -> torch.Tensor:
    return call.input.new_empty(0, dtype=torch.uint8)  # type: ignore[no-any-return]


def layer(call: SimpleNamespace) -> tuple[torch.Tensor, ...]:
    """Returns the output, the mean and the inverse deviation of a layer."""
    affine = _all_wide(call.weight, call.bias)
    out, *saved = aten.native_layer_norm.default(
        wide(call.input), call.normalized_shape, *affine, call.eps
    )
    return out.to(call.input.dtype), *saved


def layer_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of input, weight and bias; None for those that are not asked."""
    saved = _all_wide(call.mean, call.rstd, call.weight, call.bias)
    found = aten.native_layer_norm_backward.default(
        wide(call.grad_out), wide(call.input), call.normalized_shape, *saved, call.output_mask
    )
    return tuple(
        None if gradient is None else gradient.to((call.input if of is None else of).dtype)
        for gradient, of in zip(found, (call.input, call.weight, call.bias), strict=True)
    )


def rms(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns ``x / sqrt(mean(x²) + eps) * weight`` and the inverse root, for the backward."""
    values = wide(call.input)
    eps = torch.finfo(values.dtype).eps if call.eps is None else call.eps
    rstd = (values.square().mean(_dims(call), keepdim=True) + eps).rsqrt()
    out = values * rstd if call.weight is None else values * rstd * call.weight
    return out.to(call.input.dtype), rstd


def rms_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of input and weight; None for those that are not asked."""
    grad = wide(call.grad_out)
    normal = call.input * call.rstd
    scaled = grad if call.weight is None else grad * call.weight
    of_input = call.rstd * (scaled - normal * (scaled * normal).mean(_dims(call), keepdim=True))
    of_weight = None
    if call.output_mask[1] and call.weight is not None:
        of_weight = (grad * normal).sum_to_size(call.weight.shape).to(call.weight.dtype)
    return of_input.to(call.input.dtype) if call.output_mask[0] else None, of_weight


def _dims(call: SimpleNamespace) -> list[int]:
    return list(range(-len(call.normalized_shape), 0))


def statistics(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the mean and the inverse deviation of each channel."""
    values = wide(call.input)
    var, mean = torch.var_mean(values, _inner_dims(values), correction=0)
    return mean, (var + call.eps).rsqrt()


def normalized(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``(input - mean) * invstd * weight + bias``."""
    out = (wide(call.input) - _spread(call.mean, call)) * _spread(call.invstd, call)
    if call.weight is not None:
        out = out * _spread(call.weight, call)
    if call.bias is not None:
        out = out + _spread(call.bias, call)
    return out.to(call.input.dtype)


def gathered(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the statistics of all processes, each with ``count`` elements a channel."""
    call.counts = call.mean.new_full((len(call.mean),), call.count)
    return gathered_with_counts(call)


def gathered_with_counts(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the statistics of all processes; updates the running ones in place."""
    counts, means = wide(call.counts)[:, None], wide(call.mean)
    total = counts.sum()
    mean = (counts * means).sum(0) / total
    squares = wide(call.invstd) ** -2 - call.eps + (means - mean) ** 2
    var = (counts * squares).sum(0) / total
    unbiased = var * total / (total - 1)
    for running, now in ((call.running_mean, mean), (call.running_var, unbiased)):
        if running is not None:
            running.copy_((1 - call.momentum) * running + call.momentum * now)
    return mean, (var + call.eps).rsqrt()


def reduced(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the sums of ``dy`` and ``dy * (x - mean)``, and the gradients of weight and bias."""
    grad, values = wide(call.grad_out), wide(call.input)
    of_grad = grad.sum(_inner_dims(values))
    of_both = (grad * (values - _spread(call.mean, call))).sum(_inner_dims(values))
    dtype = of_grad.dtype if call.weight is None else call.weight.dtype
    return (
        of_grad if call.input_g else None,
        of_both if call.input_g else None,
        (of_both * call.invstd).to(dtype) if call.weight_g else None,
        of_grad.to(dtype) if call.bias_g else None,
    )


def input_gradient(call: SimpleNamespace) -> torch.Tensor:
    """Returns the gradient of the input, from the sums over all processes."""
    total, invstd = call.count.sum(), wide(call.invstd)
    centered = wide(call.input) - _spread(call.mean, call)
    slope = _spread(invstd**2 * call.sum_dy_xmu / total, call)
    grad = wide(call.grad_out) - _spread(call.sum_dy / total, call) - centered * slope
    grad = grad * _spread(invstd if call.weight is None else invstd * call.weight, call)
    return grad.to(call.input.dtype)


def _inner_dims(tensor: torch.Tensor) -> list[int]:
    return [0, *range(2, tensor.dim())]


def _spread(statistic: torch.Tensor, call: SimpleNamespace) -> torch.Tensor:
    return wide(statistic).reshape(1, -1, *[1] * (call.input.dim() - 2))


def _all_wide(*tensors: torch.Tensor | None) -> list[torch.Tensor | None]:
    return [None if tensor is None else wide(tensor) for tensor in tensors]


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
        "aten.native_layer_norm.default": layer,
        "aten.native_layer_norm_backward.default": layer_backward,
        "aten._fused_rms_norm.default": rms,
        "aten._fused_rms_norm_backward.default": rms_backward,
        "aten.batch_norm_stats.default": statistics,
        "aten.batch_norm_elemt.default": normalized,
        "aten.batch_norm_gather_stats.default": gathered,
        "aten.batch_norm_gather_stats_with_counts.default": gathered_with_counts,
        "aten.batch_norm_backward_reduce.default": reduced,
        "aten.batch_norm_backward_elemt.default": input_gradient,
    }
)
