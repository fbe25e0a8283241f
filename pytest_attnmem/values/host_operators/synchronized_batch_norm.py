"""The steps of ``SyncBatchNorm``: ATen/native/cuda/Normalization.cuh.

Statistics are float32, float64 for float64, [C]; those of all processes [processes, C].
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch


def statistics(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the mean and the inverse deviation of each channel."""
    wide = _wide(call.input)
    var, mean = torch.var_mean(wide, _dims(wide), correction=0)
    return mean, (var + call.eps).rsqrt()


def normalized(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``(input - mean) * invstd * weight + bias``."""
    out = (_wide(call.input) - _spread(call.mean, call)) * _spread(call.invstd, call)
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
    counts, means = _wide(call.counts)[:, None], _wide(call.mean)
    total = counts.sum()
    mean = (counts * means).sum(0) / total
    squares = _wide(call.invstd) ** -2 - call.eps + (means - mean) ** 2
    var = (counts * squares).sum(0) / total
    unbiased = var * total / (total - 1)
    for running, now in ((call.running_mean, mean), (call.running_var, unbiased)):
        if running is not None:
            running.copy_((1 - call.momentum) * running + call.momentum * now)
    return mean, (var + call.eps).rsqrt()


def reduced(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the sums of ``dy`` and ``dy * (x - mean)``, and the gradients of weight and bias."""
    grad, wide = _wide(call.grad_out), _wide(call.input)
    of_grad = grad.sum(_dims(wide))
    of_both = (grad * (wide - _spread(call.mean, call))).sum(_dims(wide))
    dtype = of_grad.dtype if call.weight is None else call.weight.dtype
    return (
        of_grad if call.input_g else None,
        of_both if call.input_g else None,
        (of_both * call.invstd).to(dtype) if call.weight_g else None,
        of_grad.to(dtype) if call.bias_g else None,
    )


def input_gradient(call: SimpleNamespace) -> torch.Tensor:
    """Returns the gradient of the input, from the sums over all processes."""
    total, invstd = call.count.sum(), _wide(call.invstd)
    centered = _wide(call.input) - _spread(call.mean, call)
    slope = _spread(invstd**2 * call.sum_dy_xmu / total, call)
    grad = _wide(call.grad_out) - _spread(call.sum_dy / total, call) - centered * slope
    grad = grad * _spread(invstd if call.weight is None else invstd * call.weight, call)
    return grad.to(call.input.dtype)


def _dims(tensor: torch.Tensor) -> list[int]:
    return [0, *range(2, tensor.dim())]


def _spread(statistic: torch.Tensor, call: SimpleNamespace) -> torch.Tensor:
    return _wide(statistic).reshape(1, -1, *[1] * (call.input.dim() - 2))


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()


OPERATORS: Final = MappingProxyType(
    {
        "aten.batch_norm_stats.default": statistics,
        "aten.batch_norm_elemt.default": normalized,
        "aten.batch_norm_gather_stats.default": gathered,
        "aten.batch_norm_gather_stats_with_counts.default": gathered_with_counts,
        "aten.batch_norm_backward_reduce.default": reduced,
        "aten.batch_norm_backward_elemt.default": input_gradient,
    }
)
