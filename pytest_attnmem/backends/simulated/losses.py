"""Losses that C++ code composes, with branches of their own for tensors that are not plain.

Sources: aten/src/ATen/native/{LossNLL,LossCTC}.cpp, native/cudnn/LossCTC.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Any, Final

import torch

from .op_kinds import in_cpp

_aten = torch.ops.aten
_MEAN: Final = 1
_SUM: Final = 2


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    reduction: int = _MEAN,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
) -> Any:
    """Runs the loss; its mean of smoothed labels with weights selects the targets that count."""
    smoothed = label_smoothing > 0 and weight is not None and reduction == _MEAN
    if not smoothed or input.shape == target.shape:
        return in_cpp(
            _aten.cross_entropy_loss.default,
            *(input, target, weight, reduction, ignore_index, label_smoothing),
        )
    dim = 0 if input.dim() == 1 else 1
    logs = torch.log_softmax(input, dim, input.dtype)
    loss = _aten.nll_loss_nd(logs, target, weight, reduction, ignore_index)
    weights = weight.view([-1 if axis == dim else 1 for axis in range(logs.dim())])
    weighted = logs * weights
    total = weighted.sum(dim)
    smooth = -total
    del weighted, total
    ignored = target == ignore_index
    smooth.masked_fill_(ignored, 0.0)
    counted = _sum_of_weights(weight, target, ignored)  # compilers run the divisor first
    mean = smooth.sum() / counted
    del counted
    return (1 - label_smoothing) * loss + mean * (label_smoothing / logs.shape[dim])


def _sum_of_weights(weight: Any, target: Any, ignored: Any) -> Any:
    counted = ~ignored
    targets = target.masked_select(counted).flatten()
    gathered = weight.gather(0, targets)
    return gathered.sum()


def ctc_loss(
    mark_unknown: Callable[[str], None],
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: int = _MEAN,
    zero_infinity: bool = False,
) -> Any:
    """Runs the loss with lengths on the device, which C++ code cannot make for a fake."""
    if _is_cudnns(log_probs, targets, input_lengths, target_lengths, blank):
        mark_unknown("aten.ctc_loss.IntList by cuDNN")
    batched = log_probs.dim() == 3
    if not batched:
        log_probs, targets = log_probs.unsqueeze(1), targets.unsqueeze(0)
    if targets.device != log_probs.device:
        targets = targets.to(log_probs.device)
    if targets.dtype is not torch.int64:
        targets = targets.to(torch.int64)
    args = (log_probs, targets, input_lengths, target_lengths, blank, zero_infinity)
    losses = _aten._ctc_loss(*args)[0]
    if zero_infinity:
        losses = torch.where(losses == inf, losses.new_zeros(()), losses)
    if reduction == _MEAN:
        lengths = losses.new_empty(len(target_lengths))
        for place, length in enumerate(target_lengths):
            lengths[place : place + 1].fill_(max(length, 1))
        return (losses / lengths).mean()
    if reduction == _SUM:
        return losses.sum()
    return losses if batched else losses.squeeze(0)


def _is_cudnns(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int
) -> bool:
    """Returns True where cuDNN may compute the loss, with a workspace that it alone knows."""
    return bool(
        torch.backends.cudnn.enabled
        and blank == 0
        and targets.device.type == "cpu"
        and (log_probs.dim(), targets.dim()) == (3, 1)
        and (log_probs.dtype, targets.dtype) == (torch.float32, torch.int32)
        and all(length == log_probs.shape[0] for length in input_lengths)
        and all(
            length < 256 and length <= most
            for length, most in zip(target_lengths, input_lengths, strict=False)
        )
    )
