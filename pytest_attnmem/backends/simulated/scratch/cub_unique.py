"""Temporary storage of CUB's algorithms for different elements (CCCL 3.0; see ``cub.py``).

Each tile of elements has a state that the next tile reads. Tiles by compute capability of the
kernel are those of cub/device/dispatch/tuning/tuning_select_if.cuh and tuning_scan.cuh.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from ....profiles import DeviceProfile

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
