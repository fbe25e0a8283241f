"""Rules for sorting (aten/src/ATen/native/cuda/Sort.cpp and Sort.cu)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ..op_arguments import argument
from ..op_plan import AllocationPlan, Free, OpCall, Rule, Temporary
from .cub import radix_sort_storage
from .plan_steps import allocate_outputs, temporary
from .tensor_bytes import copy_bytes, wrap_dim

if TYPE_CHECKING:
    import torch

_INDEX: Final = 8
_SMALL: Final = 4096  # one block sorts a row of up to so many elements
_SEGMENTED: Final = 128  # from so many rows on, a segmented sort is used
#: The most rows, and the length from which blocks share a row (``mbtopk::should_use``).
_SHARED: Final = (
    *((20, 20_000), (40, 10_000), (80, 8000), (200, 5000), (800, 3000), (4000, 800)),
    (2**63, 400),
)
_LARGEST: Final = 2**31 - 1


def _sort(call: OpCall) -> AllocationPlan | None:
    """Plans a sort: short rows in one block each, up to 127 long rows by radix sort."""
    x: torch.Tensor = call.args[0]
    if not call.outputs or x.numel() == 0 or x.dim() == 0:
        return allocate_outputs(call) if call.outputs else None
    dim = wrap_dim(argument(call, "dim"), x.dim())
    length = x.shape[dim]
    rows = x.numel() // length
    if length <= _SMALL:
        return (*allocate_outputs(call), *temporary("numbers", length * _INDEX))
    if x.numel() > _LARGEST or not (x.is_contiguous() and dim == x.dim() - 1):
        return None
    sorts = _rows(call, x, rows)
    return None if sorts is None else (*allocate_outputs(call), *sorts)


def _rows(call: OpCall, x: torch.Tensor, rows: int) -> AllocationPlan | None:
    count, size = x.numel(), x.dtype.itemsize
    if rows >= _SEGMENTED:
        return None
    storage = radix_sort_storage(count, size, _INDEX, 8 * size, call.profile)
    if storage is None:
        return None
    if rows == 1:
        return temporary("places", count * _INDEX, temporary("sort", storage))
    by_row = radix_sort_storage(count, _INDEX, 0, rows.bit_length(), call.profile)
    if by_row is None:
        return None
    return (
        Temporary("places and rows", count * _INDEX),
        Temporary("sorted places and rows", count * _INDEX),
        *temporary("sorted values", count * size, temporary("sort by value", storage)),
        *temporary("sort by row", by_row),
        Free("sorted places and rows"),
        Free("places and rows"),
    )


def _top(call: OpCall) -> AllocationPlan | None:
    """Plans ``topk`` by one block for each row.

    If rows are long for their number, several blocks share a row, with counts that depend on
    occupancy, which is not modelled (TensorTopK.cu).
    """
    x: torch.Tensor = call.args[0]
    if x.dim() == 0 or x.numel() == 0 or call.args[1] > _SMALL // 2:
        return None
    length = x.shape[wrap_dim(argument(call, "dim"), x.dim())]
    rows = x.numel() // length
    longest = next(limit for most, limit in _SHARED if rows <= most)
    if length >= longest:
        return None
    return (*allocate_outputs(call), *temporary("contiguous", copy_bytes(x)))


RULES: Final = MappingProxyType[str, Rule](
    {"aten.sort.default": _sort, "aten.sort.stable": _sort, "aten.topk.default": _top}
)
