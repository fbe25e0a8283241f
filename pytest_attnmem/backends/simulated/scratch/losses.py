"""Losses, and random masks (aten/src/ATen/native/cuda/NLLLoss.cu, Loss.cu, Dropout.cu)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import torch

from ..op_arguments import argument
from ..op_plan import AllocationPlan, OpCall, Output, Rule
from .plan_steps import allocate_outputs, temporary
from .reduction_launch import ReductionKernel, blocks_plan
from .tensor_bytes import HALVES, copy_bytes, dense_bytes, wider
from .tensor_iterator import reduction

_NONE: Final = 0


def _likelihood(call: OpCall) -> AllocationPlan:
    """A row's loss each, or all of them added up by one block; of contiguous inputs."""
    x, target, weight = call.args[:3]
    return (
        *allocate_outputs(call),
        *_contiguous(("input", x), ("target", target), ("weight", weight)),
    )


def _likelihood_backward(call: OpCall) -> AllocationPlan:
    grad, x, target, weight, kind = call.args[:5]
    rows = grad if kind == _NONE else None
    return (
        *allocate_outputs(call),
        *_contiguous(("target", target), ("input", x), ("gradient", rows), ("weight", weight)),
    )


def _contiguous(*given: tuple[str, torch.Tensor | None]) -> AllocationPlan:
    """Copies of those that are not contiguous, all alive together."""
    steps: AllocationPlan = ()
    for name, tensor in reversed(given):
        nbytes = 0 if tensor is None else copy_bytes(tensor)
        steps = temporary(f"contiguous {name}", nbytes, steps)
    return steps


def _distance(call: OpCall) -> AllocationPlan | None:
    """Each difference, and their mean or sum.

    The result is resized from what holds the differences of all, and keeps that storage.
    """
    x, target = call.args[:2]
    if argument(call, "reduction") == _NONE:
        return allocate_outputs(call)
    if not (x.is_contiguous() and target.is_contiguous() and x.shape == target.shape):
        return None
    dtype = torch.result_type(x, target)
    count, size = x.numel(), dtype.itemsize
    kernel = ReductionKernel(wider(dtype).itemsize, into_output=dtype not in HALVES)
    loop = reduction((count,), (1,), size, [size], (0,), False)
    steps = blocks_plan(loop, kernel, call.profile)
    result = Output(0) if "huber" in call.op else Output(0, count * size)
    if "huber" in call.op:
        return temporary("differences", count * size, (result,), steps)
    return (result, *temporary("differences", count * size, steps))


def _logits(call: OpCall) -> AllocationPlan | None:
    """Binary cross entropy of logits: each loss and a term of it, then their mean or sum."""
    x, target = call.args[:2]
    weighted = argument(call, "weight") is not None or argument(call, "pos_weight") is not None
    plain = x.is_contiguous() and target.is_contiguous() and x.shape == target.shape
    if weighted or not plain or x.dtype != target.dtype:
        return None
    nbytes = dense_bytes(x)
    if argument(call, "reduction") == _NONE:
        return temporary("term", nbytes, allocate_outputs(call))
    kernel = ReductionKernel(wider(x.dtype).itemsize, into_output=x.dtype not in HALVES)
    size = x.dtype.itemsize
    loop = reduction((x.numel(),), (1,), size, [size], (0,), False)
    mean = (*allocate_outputs(call), *blocks_plan(loop, kernel, call.profile))
    return temporary("losses", nbytes, temporary("term", nbytes, mean))


def _dropout(call: OpCall) -> AllocationPlan | None:
    """The mask, then the result; where all is dropped, the other way round."""
    _x, p, train = call.args
    if not 0 < p <= 1 or train is not True:
        return None
    return allocate_outputs(call, 0, 1) if p == 1 else allocate_outputs(call, 1, 0)


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
