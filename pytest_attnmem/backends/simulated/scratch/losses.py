"""Rules for losses and dropout (aten/src/ATen/native/cuda/NLLLoss.cu, Loss.cu, Dropout.cu)."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Final

import torch

from .op_plan import AllocationPlan, Free, OpCall, Output, Rule, Temporary, argument
from .plan_parts import allocate_outputs, contiguous, dense_bytes, temporary
from .reduction_launch import row_plan, sum_kernel

_INDEX: Final = 8


def _lengths(count: int) -> tuple[AllocationPlan, AllocationPlan]:
    """Returns the steps that copy the lengths of a batch to the device, and that free them."""
    names = ("places of targets", "lengths of inputs", "lengths of targets")
    held = tuple(Temporary(name, count * _INDEX) for name in names)
    return held, (Free(names[1]), Free(names[0]), Free(names[2]))


def _ctc_loss(call: OpCall) -> AllocationPlan:
    """Plans the logarithms of the probabilities, then the losses."""
    held, freed = _lengths(call.args[0].shape[1])
    return (*held, Output(1), Output(0), *freed)


def _ctc_loss_backward(call: OpCall) -> AllocationPlan:
    """Plans as many logarithms again, of the rest of each target, then the gradient."""
    alpha: torch.Tensor = call.args[6]
    held, freed = _lengths(call.args[1].shape[1])
    beta = Temporary("logarithms", dense_bytes(alpha))
    return (*held, beta, Output(0), Free("logarithms"), *freed)


_NO_REDUCTION: Final = 0


def _nll_loss(call: OpCall) -> AllocationPlan:
    """Plans the losses of rows, or their sum by one block, with contiguous inputs."""
    x, target, weight = call.args[:3]
    copies = contiguous({"input": x, "target": target, "weight": weight})
    return (*allocate_outputs(call), *copies)


def _nll_loss_backward(call: OpCall) -> AllocationPlan:
    grad, x, target, weight, kind = call.args[:5]
    rows = grad if kind == _NO_REDUCTION else None
    copies = contiguous({"target": target, "input": x, "gradient": rows, "weight": weight})
    return (*allocate_outputs(call), *copies)


def _nll_loss_2d(call: OpCall) -> AllocationPlan | None:
    """Plans the total weight, then the losses of pixels or their sum, with contiguous inputs."""
    x, target, weight, kind = call.args[:4]
    if not x.numel() or (weight is not None and not weight.is_contiguous()):
        return None
    copies = () if kind == _NO_REDUCTION else contiguous({"input": x, "target": target})
    return (*allocate_outputs(call, 1, 0), *copies)


def _nll_loss_2d_backward(call: OpCall) -> AllocationPlan | None:
    _grad, x, target, weight, kind = call.args[:5]
    if not x.numel() or (weight is not None and not weight.is_contiguous()):
        return None
    copies = () if kind == _NO_REDUCTION else contiguous({"target": target})
    return (*allocate_outputs(call), *copies)


def _elementwise_loss(call: OpCall) -> AllocationPlan | None:
    """Plans the differences, and their mean or sum.

    The result is the resized tensor of the differences and keeps its storage.
    """
    x, target = call.args[:2]
    dtype = torch.result_type(x, target)
    if "huber" in call.op and (x.dtype != target.dtype or x.shape != target.shape):
        return None
    if argument(call, "reduction") == _NO_REDUCTION:
        return allocate_outputs(call)
    if not x.numel() or not target.numel():
        return None
    # The differences are dense in every layout, so their sum is that of a row.
    count = prod(torch.broadcast_shapes(x.shape, target.shape))
    nbytes, steps = count * dtype.itemsize, _sum_of_row(call, count, dtype)
    if "huber" in call.op:
        return temporary("differences", nbytes, (Output(0),), steps)
    return (Output(0, nbytes), *temporary("differences", nbytes, steps))


def _sum_of_row(call: OpCall, count: int, dtype: torch.dtype) -> AllocationPlan:
    """Plans the sum of so many elements, side by side."""
    return row_plan(call, count, dtype.itemsize, [dtype.itemsize], sum_kernel(dtype))


def _reduced_in_place(call: OpCall) -> AllocationPlan | None:
    """Plans losses whose mean or sum is copied into the tensor of the losses, once resized."""
    x, target = call.args[:2]
    if x.shape != target.shape or x.dtype != target.dtype or not x.numel():
        return None
    if argument(call, "reduction") == _NO_REDUCTION:
        return allocate_outputs(call)
    reduced = temporary("mean or sum", x.dtype.itemsize, _sum_of_row(call, x.numel(), x.dtype))
    return (Output(0, dense_bytes(x)), *reduced)


def _dropout(call: OpCall) -> AllocationPlan | None:
    """Plans the mask, then the result; the other way round if all is dropped."""
    _x, p, train = call.args
    if not 0 < p <= 1 or train is not True:
        return None
    return allocate_outputs(call, 0, 1) if p == 1 else allocate_outputs(call, 1, 0)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._ctc_loss.default": _ctc_loss,
        "aten._ctc_loss_backward.default": _ctc_loss_backward,
        "aten.nll_loss_forward.default": _nll_loss,
        "aten.nll_loss_backward.default": _nll_loss_backward,
        "aten.nll_loss2d_forward.default": _nll_loss_2d,
        "aten.nll_loss2d_backward.default": _nll_loss_2d_backward,
        "aten.mse_loss.default": _elementwise_loss,
        "aten.smooth_l1_loss.default": _elementwise_loss,
        "aten.huber_loss.default": _elementwise_loss,
        "aten.binary_cross_entropy.default": _reduced_in_place,
        "aten.binary_cross_entropy_backward.default": allocate_outputs,
        "aten.native_dropout.default": _dropout,
    }
)
