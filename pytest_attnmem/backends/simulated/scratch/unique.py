"""Rules for different elements (aten/src/ATen/native/cuda: Unique.cu and UniqueCub.cu)."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from ....profiles import DeviceProfile
from ..op_plan import AllocationPlan, Free, OpCall, Output, Rule, Temporary, argument
from .cub import radix_sort_storage
from .plan_parts import temporary

_ALIGNMENT: Final = 256
_PADDING: Final = 32  # extra tile states before the first tile
_STATE: Final = 16
_WORD: Final = 8

#: Elements of a tile of a selection of different elements, by their bytes.
_UNIQUE_TILES: Final = MappingProxyType(
    {
        (7, 5): MappingProxyType({4: 1280, 8: 640}),
        (8, 0): MappingProxyType({4: 4608, 8: 1920}),
        (8, 6): MappingProxyType({4: 1280, 8: 640}),
        (9, 0): MappingProxyType({4: 6528, 8: 4224}),
        (10, 0): MappingProxyType({4: 5760, 8: 4224}),
        (12, 0): MappingProxyType({4: 5760, 8: 4224}),
    }
)
#: Elements of a tile of a scan of int32 numbers to int64 places.
_NUMBER_TILES: Final = MappingProxyType({(8, 0): 7680, (9, 0): 6144, (10, 0): 6144, (12, 0): 6144})
_SMALLEST_NUMBER_TILE: Final = 3840
_RUN_TILE: Final = 768


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT + _ALIGNMENT - 1


def _states(count: int, tile: int) -> int:
    return _PADDING - (-count // tile)


def unique_elements_storage(count: int, itemsize: int, profile: DeviceProfile) -> int | None:
    """Returns the storage bytes of a selection of elements that differ from the one before.

    Returns None for elements or kernels whose tile is not known, and for a device without kernels.
    """
    tiles = _UNIQUE_TILES.get(profile.kernels) if profile.kernels is not None else None
    tile = tiles.get(itemsize) if tiles is not None else None
    if tile is None:
        return None
    return _rounded(_states(count, tile) * _WORD + _ALIGNMENT - 1)


def number_scan_storage(count: int, profile: DeviceProfile) -> int:
    """Returns the storage bytes of a scan that numbers groups of elements."""
    tile = _SMALLEST_NUMBER_TILE
    if profile.kernels is not None:
        tile = _NUMBER_TILES.get(profile.kernels, tile)
    return _rounded(_states(count, tile) * _STATE)


def run_lengths_storage(count: int) -> int:
    """Returns the storage bytes of a run-length encoding."""
    return _rounded(_states(count, _RUN_TILE) * _STATE)


if TYPE_CHECKING:
    import torch

_INDEX: Final = 8


def _unique(call: OpCall) -> AllocationPlan | None:
    """Plans a sort, the numbers of the groups by element, and the first of each group.

    The results have the memory of as many elements as the input has, because their number is
    read last.
    """
    x: torch.Tensor = call.args[0]
    inverse, counts = _asked(call)
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


def _asked(call: OpCall) -> tuple[bool, bool]:
    return bool(argument(call, "return_inverse")), bool(argument(call, "return_counts"))


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
