"""Rules for reductions of segments (aten/src/ATen/native/cuda/SegmentReduce.cu)."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Final

import torch

from ..op_arguments import argument
from ..op_plan import AllocationPlan, Free, OpCall, Rule, Temporary
from .comparing import all_of
from .cub import scan_storages
from .plan_steps import allocate_outputs, temporary
from .reduction_launch import ReductionKernel, blocks_plan
from .tensor_bytes import copy_bytes
from .tensor_iterator import reduction

_INDEX: Final = 8
_SMALLEST_STORAGE: Final = 1


def _forward(call: OpCall) -> AllocationPlan | None:
    """Plans the places of the segments; CUB reduces data of one dimension."""
    x: torch.Tensor = call.args[0]
    cub = _SMALLEST_STORAGE if x.dim() == 1 else 0
    steps = _segments(call, x, temporary("storage", cub))
    if steps is None or argument(call, "offsets") is not None or argument(call, "unsafe"):
        return steps
    lengths: torch.Tensor = argument(call, "lengths")
    return (*_checks(call, lengths), *steps) if lengths.dtype is torch.int64 else None


def _checks(call: OpCall, lengths: torch.Tensor) -> AllocationPlan:
    """Plans what the host asks of lengths: if the smallest is negative, and what they add up to."""
    rows = prod(lengths.shape[:-1])
    layout = tuple(lengths.shape), tuple(lengths.stride()), _INDEX, [_INDEX]
    everywhere, last = tuple(range(lengths.dim())), (lengths.dim() - 1,)
    kernel = ReductionKernel(_INDEX)
    smallest = blocks_plan(reduction(*layout, everywhere, False), kernel, call.profile)
    sums = blocks_plan(reduction(*layout, last, False), kernel, call.profile)
    equal = temporary("equal", rows, all_of((rows,), (1,), call.profile))
    return (
        *temporary("smallest", _INDEX, smallest),
        *temporary("sums of rows", rows * _INDEX, sums, equal),
    )


def _backward(call: OpCall) -> AllocationPlan | None:
    grad, x = call.args[0], call.args[2]
    steps = _segments(call, x, ())
    return None if steps is None else temporary("contiguous gradient", copy_bytes(grad), steps)


def _segments(call: OpCall, x: torch.Tensor, inner: AllocationPlan) -> AllocationPlan | None:
    """Plans the lengths of the segments, from their places, or the places from the lengths."""
    lengths, offsets = argument(call, "lengths"), argument(call, "offsets")
    given = [tensor for tensor in (x, lengths, offsets) if tensor is not None]
    plain = all(tensor.is_contiguous() for tensor in given)
    if not plain or call.profile.kernels is None or not x.numel():
        return None
    if lengths is None:
        count = prod(offsets.shape[:-1]) * (offsets.shape[-1] - 1)
        return (*allocate_outputs(call), *temporary("lengths", count * _INDEX, inner))
    rows, count = prod(lengths.shape[:-1]), lengths.shape[-1] + 1
    scans: AllocationPlan = ()
    if rows == 1:
        (storage,) = scan_storages(count, _INDEX, whole=True)
        scans = temporary("scan", storage)
    return (
        *allocate_outputs(call),
        *(Temporary("zeros", rows * _INDEX), Temporary("places", rows * count * _INDEX)),
        *(Free("zeros"), *scans, *inner, Free("places")),
    )


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.segment_reduce.default": _forward,
        "aten._segment_reduce_backward.default": _backward,
    }
)
