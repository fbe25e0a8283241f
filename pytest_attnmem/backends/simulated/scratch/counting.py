"""Rules for counts, repeats and comparing (SummaryOps.cu, Equal.cpp and Repeat.h of ATen)."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Any, Final

import torch

from .cub import scan_storages
from .op_plan import AllocationPlan, Free, OpCall, Output, Rule, Temporary, argument
from .plan_parts import allocate_outputs, dense_bytes, temporary
from .reduction_launch import ReductionKernel, blocks_plan, row_plan
from .reduction_ops import extrema_of_all, over_dims
from .strides import Operand, result_strides
from .tensor_iterator import reduction

_LONGEST_SCAN: Final = 2**30
_WEIGHTS: Final = (torch.float32, torch.float64)
_COUNT: Final = 8


def _repeats(call: OpCall) -> AllocationPlan | None:
    """Plans the ends of the repeats, their check, and the result.

    PyTorch 2.15 checks the smallest number of repeats, earlier versions compare all with 0; none
    is checked if the caller gives the size of the result.
    """
    x: torch.Tensor = call.args[0]
    count, kernels = x.numel(), call.profile.kernels
    if not count:
        return ()
    if count > _LONGEST_SCAN or kernels is None or not x.is_contiguous():
        return None
    (storage,) = scan_storages(count, 8, whole=True)
    cast = 0 if x.dtype == torch.int64 else dense_bytes(x, torch.int64)
    ends = temporary("cast", cast, temporary("scan", storage))
    checked = () if argument(call, "output_size") is not None else _check(call, x)
    return temporary("ends", count * 8, ends, checked, allocate_outputs(call))


def _check(call: OpCall, x: torch.Tensor) -> AllocationPlan:
    if call.version < (2, 15):
        return temporary("none negative", x.numel(), _all_of(call, (x.numel(),), (1,)))
    size = x.dtype.itemsize
    smallest = row_plan(call, x.numel(), size, [size], ReductionKernel(size))
    return temporary("smallest", size, smallest)


def _counts(call: OpCall) -> AllocationPlan | None:
    """Plans the range of the numbers, and the counts; weights of another dtype become float64."""
    x: torch.Tensor = call.args[0]
    weights = argument(call, "weights")
    if not x.numel():
        return allocate_outputs(call)
    if not x.is_contiguous() or (weights is not None and not weights.is_contiguous()):
        return None
    cast = 0
    if weights is not None and weights.dtype not in _WEIGHTS:
        cast = dense_bytes(weights, torch.float64)
    counted = (Output(0), Free("smallest"), Free("largest"))
    return temporary("weights", cast, _range_of(call, x), counted)


def _histogram(call: OpCall) -> AllocationPlan | None:
    """Plans the counts, and the range of the numbers if the caller gives none."""
    x: torch.Tensor = call.args[0]
    asked = x.numel() and argument(call, "min") == argument(call, "max")
    return (*allocate_outputs(call), *(_range_of(call, x) if asked else ()))


def _range_of(call: OpCall, x: torch.Tensor) -> AllocationPlan:
    """Plans the extrema of all elements, which stay alive."""
    held = (Temporary("smallest", x.dtype.itemsize), Temporary("largest", x.dtype.itemsize))
    return (*held, *extrema_of_all(call, x.shape, x.stride(), x.dtype))


def _all_of(call: OpCall, shape: tuple[int, ...], strides: tuple[int, ...]) -> AllocationPlan:
    """Plans the conjunction of all elements of a bool tensor: a byte."""
    loop = reduction(shape, strides, 1, [1], tuple(range(len(shape))), False)
    return temporary("all", 1, blocks_plan(loop, ReductionKernel(1), call.profile))


def _equal(call: OpCall) -> AllocationPlan:
    """Plans the comparison of elements, unless the tensors are one or their shapes differ."""
    a, b = call.args[:2]
    if a.shape != b.shape or not a.numel() or _is_same(a, b):
        return ()
    shape = tuple(a.shape)
    strides = result_strides(shape, [Operand(shape, a.stride()), Operand(shape, b.stride())])
    return temporary("equal", prod(shape), _all_of(call, shape, strides))


def _is_same(a: Any, b: Any) -> bool:
    same = a.untyped_storage()._cdata == b.untyped_storage()._cdata
    return bool(same and a.storage_offset() == b.storage_offset() and a.stride() == b.stride())


def _count_nonzero(call: OpCall) -> AllocationPlan:
    """Plans the sum of a mask, which is cast to integers first; booleans are their own mask."""
    x: torch.Tensor = call.args[0]
    steps = over_dims(call, [_COUNT], ReductionKernel(_COUNT), torch.int64)
    cast = temporary("cast", x.numel() * _COUNT, steps)
    mask = 0 if x.dtype is torch.bool else x.numel()
    return temporary("nonzero", mask, allocate_outputs(call), cast)


TAKES_COMPLEX: Final = ("aten.count_nonzero",)
RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.equal.default": _equal,
        "aten.count_nonzero": _count_nonzero,
        "aten.isin.Tensor_Scalar": allocate_outputs,
        "aten.repeat_interleave.Tensor": _repeats,
        "aten.bincount.default": _counts,
        "aten.histc.default": _histogram,
    }
)
