"""Rules for different elements (aten/src/ATen/native/cuda: Unique.cu and UniqueCub.cu)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from .cub import (
    number_scan_storage,
    radix_sort_storage,
    run_lengths_storage,
    unique_elements_storage,
)
from .op_plan import AllocationPlan, Free, OpCall, Output, Rule, Temporary, argument
from .plan_parts import temporary

if TYPE_CHECKING:
    import torch

_INDEX: Final = 8


def _unique(call: OpCall) -> AllocationPlan | None:
    """Plans a sort, the numbers of the groups by element, and the first of each group.

    The results have the memory of as many elements as the input has, because their number is
    read last.
    """
    x: torch.Tensor = call.args[0]
    inverse, counts = (bool(argument(call, f"return_{what}")) for what in ("inverse", "counts"))
    count, size = x.numel(), x.dtype.itemsize
    if not count or x.is_contiguous() is False or (not x.dtype.is_floating_point and size < 4):
        return None
    value = _INDEX if inverse else 0
    int32 = size == 4 and not x.dtype.is_floating_point
    storage = radix_sort_storage(count, size, value, 8 * size, call.profile, int32=int32)
    first = _first_of_groups(call, count, size, inverse, counts)
    if storage is None or first is None:
        return None
    elements = count * size
    if not inverse:
        sort = temporary("sort", storage)
        return temporary("sorted", elements, sort, first)
    return (
        *(Temporary("sorted", elements), Temporary("places", count * _INDEX)),
        Temporary("sorted places", count * _INDEX),
        *temporary("sort", storage),
        Free("places"),
        *_inverse(call, count),
        *first,
        *(Free("sorted places"), Free("sorted")),
    )


def _inverse(call: OpCall, count: int) -> AllocationPlan:
    scan = temporary("scan", number_scan_storage(count, call.profile))
    return (Output(1, count * _INDEX), *temporary("numbers", count * _INDEX, scan))


def _first_of_groups(
    call: OpCall, count: int, size: int, inverse: bool, counts: bool
) -> AllocationPlan | None:
    """Plans the elements that differ from the one before, and the lengths of their groups."""
    storage = unique_elements_storage(count, size, call.profile)
    if storage is None:
        return None
    steps: AllocationPlan = temporary("selection", storage)
    if counts:
        lengths = Output(2 if inverse else 1, count * _INDEX)
        steps = (lengths, *temporary("groups", run_lengths_storage(count)))
    return (Output(0, count * size), *temporary("number", _INDEX, steps))


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._unique.default": _unique,
        "aten._unique2.default": _unique,
    }
)
