"""Losses, and random masks (aten/src/ATen/native/cuda/NLLLoss.cu, Loss.cu, Dropout.cu)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import torch

from ..op_plan import Call, Output, Plan, Rule
from .arguments import argument
from .plan_steps import born, while_held
from .reduction_launch import Kernel, blocks_plan
from .tensor_bytes import HALVES, copy_bytes, dense_bytes, wider
from .tensor_iterator import reduction

_NONE: Final = 0


def _likelihood(call: Call) -> Plan:
    """A row's loss each, or all of them added up by one block; of contiguous inputs."""
    x, target, weight = call.args[:3]
    return (*born(call), *_contiguous(("input", x), ("target", target), ("weight", weight)))


def _likelihood_backward(call: Call) -> Plan:
    grad, x, target, weight, kind = call.args[:5]
    rows = grad if kind == _NONE else None
    return (
        *born(call),
        *_contiguous(("target", target), ("input", x), ("gradient", rows), ("weight", weight)),
    )


def _contiguous(*given: tuple[str, torch.Tensor | None]) -> Plan:
    """Copies of those that are not contiguous, all alive together."""
    steps: Plan = ()
    for name, tensor in reversed(given):
        nbytes = 0 if tensor is None else copy_bytes(tensor)
        steps = while_held(f"contiguous {name}", nbytes, steps)
    return steps


def _distance(call: Call) -> Plan | None:
    """Each difference, and their mean or sum.

    The result is resized from what holds the differences of all, and keeps that storage.
    """
    x, target = call.args[:2]
    if argument(call, "reduction") == _NONE:
        return born(call)
    if not (x.is_contiguous() and target.is_contiguous() and x.shape == target.shape):
        return None
    dtype = torch.result_type(x, target)
    count, size = x.numel(), dtype.itemsize
    kernel = Kernel(wider(dtype).itemsize, into_output=dtype not in HALVES)
    loop = reduction((count,), (1,), size, [size], (0,), False)
    steps = blocks_plan(loop, kernel, call.profile)
    result = Output(0) if "huber" in call.op else Output(0, count * size)
    if "huber" in call.op:
        return while_held("differences", count * size, (result,), steps)
    return (result, *while_held("differences", count * size, steps))


def _logits(call: Call) -> Plan | None:
    """Binary cross entropy of logits: each loss and a term of it, then their mean or sum."""
    x, target = call.args[:2]
    weighted = argument(call, "weight") is not None or argument(call, "pos_weight") is not None
    plain = x.is_contiguous() and target.is_contiguous() and x.shape == target.shape
    if weighted or not plain or x.dtype != target.dtype:
        return None
    nbytes = dense_bytes(x)
    if argument(call, "reduction") == _NONE:
        return while_held("term", nbytes, born(call))
    kernel = Kernel(wider(x.dtype).itemsize, into_output=x.dtype not in HALVES)
    size = x.dtype.itemsize
    loop = reduction((x.numel(),), (1,), size, [size], (0,), False)
    mean = (*born(call), *blocks_plan(loop, kernel, call.profile))
    return while_held("losses", nbytes, while_held("term", nbytes, mean))


def _dropout(call: Call) -> Plan | None:
    """The mask, then the result; where all is dropped, the other way round."""
    _x, p, train = call.args
    if not 0 < p <= 1 or train is not True:
        return None
    return born(call, 0, 1) if p == 1 else born(call, 1, 0)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.nll_loss_forward.default": _likelihood,
        "aten.nll_loss_backward.default": _likelihood_backward,
        "aten.mse_loss.default": _distance,
        "aten.smooth_l1_loss.default": _distance,
        "aten.huber_loss.default": _distance,
        "aten.binary_cross_entropy_with_logits.default": _logits,
        "aten.native_dropout.default": _dropout,
    }
)
