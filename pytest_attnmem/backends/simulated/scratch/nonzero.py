"""Rules for the places of elements that are not zero (aten/src/ATen/native/cuda/Nonzero.cu)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final

import torch

from ....profiles import DeviceProfile
from .cub import select_storage, sum_storage
from .op_plan import AllocationPlan, OpCall, Output, Rule, Temporary
from .plan_parts import allocate_outputs, temporary

_INDEX: Final = 8
_COUNT: Final = 4
_LARGEST: Final = 2**31 - 1
#: Elements that a block of ``nonzero_static`` counts at a time.
_STATIC_TILE: Final = 512 * 16
PLACES: Final = "places"


def _places_of(
    tensor: Any, shape: Sequence[int], made: AllocationPlan, profile: DeviceProfile
) -> AllocationPlan | None:
    """Plans a count of the elements, the steps ``made`` for the result, and a selection.

    Returns None for more elements than one kernel takes, or for an unknown device. The tensor is
    expanded to ``shape``.
    """
    count = prod(shape)
    storage = select_storage(count, profile)
    if count > _LARGEST or storage is None:
        return None
    read_in_place = tensor.numel() == count and tensor.is_contiguous()
    return temporary(
        "contiguous elements",
        0 if read_in_place else count * tensor.dtype.itemsize,
        temporary(
            "count",
            _COUNT,
            temporary("sum", sum_storage(count, profile)),
            made,
            temporary("selection", storage) if shape else (),
        ),
    )


def places_of_mask(
    mask: Any, count: int, profile: DeviceProfile, shape: Sequence[int] | None = None
) -> AllocationPlan | None:
    """Plans the temporary ``PLACES``, which stays alive: an int64 row for each dimension.

    ``count`` elements of the bool or uint8 mask, expanded to ``shape`` if given, are true.
    """
    shape = mask.shape if shape is None else shape
    nbytes = count * len(shape) * _INDEX
    made = (Temporary(PLACES, nbytes),) if nbytes else ()
    return _places_of(mask, shape, made, profile)


def _nonzero(call: OpCall) -> AllocationPlan | None:
    x: torch.Tensor = call.args[0]
    return _places_of(x, x.shape, (Output(0),), call.profile)


def _masked_select(call: OpCall) -> AllocationPlan | None:
    """Plans the places of the expanded mask, by which the elements are indexed."""
    x, mask = call.args[:2]
    shape = tuple(torch.broadcast_shapes(x.shape, mask.shape)) or (1,)
    found = places_of_mask(mask, call.outputs[0].numel(), call.profile, shape)
    return None if found is None else (*found, *allocate_outputs(call))


def _static(call: OpCall) -> AllocationPlan | None:
    """Plans the counts of elements in each block, and their sums (``nonzero_static``).

    None for more blocks than multiprocessors, which share blocks by occupancy.
    """
    x: torch.Tensor = call.args[0]
    if not x.numel() or not call.outputs[0].numel() or not x.is_contiguous():
        return allocate_outputs(call) if x.is_contiguous() or not x.numel() else None
    blocks = -(-x.numel() // _STATIC_TILE)
    if blocks > call.profile.multiprocessors:
        return None
    held = temporary("counts", blocks * _COUNT, temporary("sums", blocks * _INDEX))
    return (*allocate_outputs(call), *held)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.nonzero.default": _nonzero,
        "aten.nonzero_static.default": _static,
        "aten.masked_select.default": _masked_select,
    }
)
