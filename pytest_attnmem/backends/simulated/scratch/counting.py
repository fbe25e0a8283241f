"""Rules for counts and repeats (aten/src/ATen/native: cuda/SummaryOps.cu and Repeat.h)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import torch

from ..op_arguments import argument
from ..op_plan import AllocationPlan, Free, OpCall, Output, Rule, Temporary
from .comparing import all_of
from .cub import scan_storages
from .plan_steps import allocate_outputs, temporary
from .reduction_launch import ReductionKernel, blocks_plan
from .reduction_ops import extrema_of_all, loop_over
from .tensor_bytes import dense_bytes

_LONGEST_SCAN: Final = 2**30
_WEIGHTS: Final = (torch.float32, torch.float64)


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
        return temporary("none negative", x.numel(), all_of((x.numel(),), (1,), call.profile))
    size = x.dtype.itemsize
    loop = loop_over(x, (0,), False, [size])
    return temporary("smallest", size, blocks_plan(loop, ReductionKernel(size), call.profile))


def _counts(call: OpCall) -> AllocationPlan | None:
    """Plans the range of the numbers, and the counts; weights of another dtype become float64."""
    x: torch.Tensor = call.args[0]
    weights = argument(call, "weights")
    if not x.numel():
        return allocate_outputs(call)
    if not x.is_contiguous() or (weights is not None and not weights.is_contiguous()):
        return None
    size = x.dtype.itemsize
    cast = 0
    if weights is not None and weights.dtype not in _WEIGHTS:
        cast = dense_bytes(weights, torch.float64)
    return temporary(
        "weights",
        cast,
        (Temporary("smallest", size), Temporary("largest", size)),
        extrema_of_all(tuple(x.shape), tuple(x.stride()), x.dtype, call.profile),
        (Output(0), Free("smallest"), Free("largest")),
    )


def _histogram(call: OpCall) -> AllocationPlan | None:
    """Plans the counts, and the range of the numbers if the caller gives none."""
    x: torch.Tensor = call.args[0]
    if x.numel() and argument(call, "min") == argument(call, "max"):
        size = x.dtype.itemsize
        return (
            Output(0),
            *(Temporary("smallest", size), Temporary("largest", size)),
            *extrema_of_all(tuple(x.shape), tuple(x.stride()), x.dtype, call.profile),
        )
    return allocate_outputs(call)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.repeat_interleave.Tensor": _repeats,
        "aten.bincount.default": _counts,
        "aten.histc.default": _histogram,
    }
)
