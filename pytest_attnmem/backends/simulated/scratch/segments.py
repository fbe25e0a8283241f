"""Rules for reductions of segments (aten/src/ATen/native/cuda/SegmentReduce.cu)."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ..op_arguments import argument
from ..op_plan import AllocationPlan, Free, OpCall, Rule, Temporary
from .cub import scan_storages
from .plan_steps import allocate_outputs, temporary

if TYPE_CHECKING:
    import torch

_INDEX: Final = 8
_SMALLEST_STORAGE: Final = 1


def _forward(call: OpCall) -> AllocationPlan | None:
    """Plans the places of the segments; CUB reduces data of one dimension."""
    x: torch.Tensor = call.args[0]
    cub = _SMALLEST_STORAGE if x.dim() == 1 else 0
    if argument(call, "offsets") is None and not argument(call, "unsafe"):
        return None  # the lengths are read and checked first
    return _segments(call, x, temporary("storage", cub))


def _backward(call: OpCall) -> AllocationPlan | None:
    return _segments(call, call.args[2], ())


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
