"""Rules for losses and dropout (aten/src/ATen/native/cuda/NLLLoss.cu, Loss.cu, Dropout.cu)."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Final

import torch

from ..op_arguments import argument
from ..op_plan import AllocationPlan, Free, OpCall, Output, Rule, Temporary
from .plan_steps import allocate_outputs, outputs_only, temporary
from .reduction_launch import ReductionKernel, blocks_plan
from .tensor_bytes import HALVES, accumulate_type, copy_bytes, dense_bytes
from .tensor_iterator import reduction

_NO_REDUCTION: Final = 0


def _nll_loss(call: OpCall) -> AllocationPlan:
    """Plans the losses of rows, or their sum by one block, with contiguous inputs."""
    x, target, weight = call.args[:3]
    return (
        *allocate_outputs(call),
        *_contiguous(("input", x), ("target", target), ("weight", weight)),
    )


def _nll_loss_backward(call: OpCall) -> AllocationPlan:
    grad, x, target, weight, kind = call.args[:5]
    rows = grad if kind == _NO_REDUCTION else None
    return (
        *allocate_outputs(call),
        *_contiguous(("target", target), ("input", x), ("gradient", rows), ("weight", weight)),
    )


def _nll_loss_2d(call: OpCall) -> AllocationPlan | None:
    """Plans the total weight, then the losses of pixels or their sum, with contiguous inputs."""
    x, target, weight, kind = call.args[:4]
    if not x.numel() or (weight is not None and not weight.is_contiguous()):
        return None
    copies = () if kind == _NO_REDUCTION else _contiguous(("input", x), ("target", target))
    return (*allocate_outputs(call, 1, 0), *copies)


def _nll_loss_2d_backward(call: OpCall) -> AllocationPlan | None:
    _grad, x, target, weight, kind = call.args[:5]
    if not x.numel() or (weight is not None and not weight.is_contiguous()):
        return None
    copies = () if kind == _NO_REDUCTION else _contiguous(("target", target))
    return (*allocate_outputs(call), *copies)


def _contiguous(*given: tuple[str, torch.Tensor | None]) -> AllocationPlan:
    """Plans copies of the tensors that are not contiguous; all copies are alive together."""
    steps: AllocationPlan = ()
    for name, tensor in reversed(given):
        nbytes = 0 if tensor is None else copy_bytes(tensor)
        steps = temporary(f"contiguous {name}", nbytes, steps)
    return steps


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
    count, size = prod(torch.broadcast_shapes(x.shape, target.shape)), dtype.itemsize
    kernel = ReductionKernel(accumulate_type(dtype).itemsize, into_output=dtype not in HALVES)
    loop = reduction((count,), (1,), size, [size], (0,), False)
    steps = blocks_plan(loop, kernel, call.profile)
    result = Output(0) if "huber" in call.op else Output(0, count * size)
    if "huber" in call.op:
        return temporary("differences", count * size, (result,), steps)
    return (result, *temporary("differences", count * size, steps))


def _bce_with_logits(call: OpCall) -> AllocationPlan | None:
    """Plans binary cross entropy: a term of the losses, the losses, then their mean or sum.

    A weight of the positive class is made into a weight of each element, and freed.
    """
    x, target = call.args[:2]
    positive = argument(call, "pos_weight")
    if x.shape != target.shape or x.dtype != target.dtype or not x.numel():
        return None
    nbytes = dense_bytes(x)
    weighing: AllocationPlan = ()
    if positive is not None:
        by_class, by_element = dense_bytes(positive), dense_bytes(x)
        weighing = (
            *(Temporary("weight of classes", by_class), Temporary("weight", by_element)),
            *(Free("weight of classes"), Free("weight")),
        )
    if argument(call, "reduction") == _NO_REDUCTION:
        return temporary("term", nbytes, weighing, allocate_outputs(call))
    mean = (*allocate_outputs(call), *_sum_of_all(call, x))
    return temporary("term", nbytes, weighing, temporary("losses", nbytes, mean))


def _sum_of_all(call: OpCall, x: torch.Tensor) -> AllocationPlan:
    """Plans the sum of a dense tensor with the elements of ``x``."""
    size = x.dtype.itemsize
    kernel = ReductionKernel(accumulate_type(x.dtype).itemsize, into_output=x.dtype not in HALVES)
    loop = reduction((x.numel(),), (1,), size, [size], (0,), False)
    return blocks_plan(loop, kernel, call.profile)


def _reduced_in_place(call: OpCall) -> AllocationPlan | None:
    """Plans losses whose mean or sum is copied into the tensor of the losses, once resized."""
    x, target = call.args[:2]
    if x.shape != target.shape or x.dtype != target.dtype or not x.numel():
        return None
    if argument(call, "reduction") == _NO_REDUCTION:
        return allocate_outputs(call)
    reduced = temporary("mean or sum", x.dtype.itemsize, _sum_of_all(call, x))
    return (Output(0, dense_bytes(x)), *reduced)


def _soft_margin_backward(call: OpCall) -> AllocationPlan | None:
    """Plans ``exp(-target * input)`` (``soft_margin_loss_backward_out`` in native/Loss.cpp)."""
    _grad, x, target = call.args[:3]
    if x.shape != target.shape or x.dtype != target.dtype:
        return None
    nbytes = dense_bytes(x)
    return (
        *(Temporary("-target", nbytes), Temporary("-target*input", nbytes)),
        *(Temporary("exp", nbytes), Free("-target*input"), Free("-target")),
        *allocate_outputs(call),
        Free("exp"),
    )


def _dropout(call: OpCall) -> AllocationPlan | None:
    """Plans the mask, then the result; the other way round if all is dropped."""
    _x, p, train = call.args
    if not 0 < p <= 1 or train is not True:
        return None
    return allocate_outputs(call, 0, 1) if p == 1 else allocate_outputs(call, 1, 0)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.nll_loss_forward.default": _nll_loss,
        "aten.nll_loss_backward.default": _nll_loss_backward,
        "aten.nll_loss2d_forward.default": _nll_loss_2d,
        "aten.nll_loss2d_backward.default": _nll_loss_2d_backward,
        "aten.mse_loss.default": _elementwise_loss,
        "aten.smooth_l1_loss.default": _elementwise_loss,
        "aten.huber_loss.default": _elementwise_loss,
        "aten.binary_cross_entropy_with_logits.default": _bce_with_logits,
        "aten.binary_cross_entropy.default": _reduced_in_place,
        "aten.binary_cross_entropy_backward.default": outputs_only,
        "aten.soft_margin_loss.default": _reduced_in_place,
        "aten.soft_margin_loss_backward.default": _soft_margin_backward,
        "aten.native_dropout.default": _dropout,
    }
)
