"""Temporary storage of CUB's algorithms (CCCL 3.0, used by PyTorch 2.13's builds for CUDA 13).

A storage is several arrays, each rounded up to 256 bytes, plus 255 bytes to align them
(``alias_temporaries`` in cub/detail/temporary_storage.cuh). The elements of a block depend on the
compute capability that the kernel was compiled for, ``DeviceProfile.kernels``: 8.6 on a device of
8.9. A device without kernels has no rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from ....profiles import DeviceProfile

#: The compute capability that a device's kernels were compiled for; None for a device without any.
_Kernels = tuple[int, int] | None

_ALIGNMENT: Final = 256
_PADDING: Final = 32  # extra tile states before the first tile
_LONGEST: Final = 2**30  # elements that CUB scans at once for PyTorch (ATen/cuda/cub.cuh)
_DIGITS: Final = 256  # values of a digit of 8 bits

#: Elements that a block scans, by itemsize (cub/device/dispatch/tuning/tuning_scan.cuh).
_SCAN_TILES: Final = MappingProxyType({2: 3840, 4: 1920, 8: 896})

#: Elements that a block sorts in a pass, by bytes of key and value (0: no values), for compute
#: capabilities below 8.0, from 8.0 and from 9.0 on (tuning_radix_sort.cuh).
_SORT_TILES: Final = MappingProxyType(
    {
        (4, 4): (11776, 6528, 6528),
        (4, 8): (2816, 3072, 5376),
        (8, 8): (2816, 3840, 4608),
        (8, 4): (2816, 3840, 5760),
        (8, 0): (2816, 3840, 5760),
        (4, 0): (5888, 8064, 6912),
        (2, 8): (0, 0, 5632),
    }
)
#: The tile of int32 keys alone, from 9.0 on, where those of float32 have another.
_INT32_TILE: Final = 7296
_SORT_COLUMNS: Final = ((8, 0), (9, 0))

#: Elements of a tile of a sum of int32 (tuning_reduce.cuh).
_SUM_THREADS: Final = 256
_SUM_TILE: Final = 16 * _SUM_THREADS
_SUM_WAVES: Final = 5

#: Elements of a tile of a unique-by-key, by bytes of keys and values, for all kernels but these,
#: for 8.0, and from 9.0 on (tuning_unique_by_key.cuh).
_BY_KEY_TILES: Final = MappingProxyType({4: (704, 2816, 7168), 8: (320, 1344, 4928)})

#: Elements that a block selects from, by compute capability of the kernel.
_SELECT_TILES: Final[Mapping[_Kernels, int]] = MappingProxyType(
    {(7, 5): 640, (8, 0): 2304, (8, 6): 640, (9, 0): 4224, (10, 0): 3520, (12, 0): 3520}
)

#: Elements of a tile of a selection of different elements, by kernel and by their bytes.
_UNIQUE_TILES: Final[Mapping[tuple[_Kernels, int], int]] = MappingProxyType(
    {
        **{((7, 5), 4): 1280, ((7, 5), 8): 640, ((8, 0), 4): 4608, ((8, 0), 8): 1920},
        **{((8, 6), 4): 1280, ((8, 6), 8): 640, ((9, 0), 4): 6528, ((9, 0), 8): 4224},
        **{((10, 0), 4): 5760, ((10, 0), 8): 4224, ((12, 0), 4): 5760, ((12, 0), 8): 4224},
    }
)

#: Elements of a tile of a scan of int32 numbers to int64 places.
_NUMBER_TILES: Final[Mapping[_Kernels, int]] = MappingProxyType(
    {(8, 0): 7680, (9, 0): 6144, (10, 0): 6144, (12, 0): 6144}
)
_SMALLEST_NUMBER_TILE: Final = 3840
_RUN_TILE: Final = 768


def _storage(*arrays: int) -> int:
    return sum(-(-nbytes // _ALIGNMENT) * _ALIGNMENT for nbytes in arrays) + _ALIGNMENT - 1


def _states(count: int, tile: int) -> int:
    """Returns the number of states of the tiles of so many elements."""
    return _PADDING - (-count // tile)


def scan_storages(count: int, itemsize: int, *, whole: bool) -> Iterator[int]:
    """Yields the storage bytes of an inclusive scan, or of each part if PyTorch splits it.

    ``whole`` says that status and value of a tile fit one word: all dtypes except halves.
    """
    for start in range(0, count, _LONGEST):
        states = _states(min(count - start, _LONGEST), _SCAN_TILES[itemsize])
        if whole:
            yield _storage(states * 2 * itemsize + _ALIGNMENT - 1)
        else:
            yield _storage(_storage(states * 4, states * itemsize, states * itemsize))


def one_tile(key: int, value: int) -> int:
    """Returns the number of elements that one block sorts without storage."""
    return 256 * max(19 * 4 // max(key, value), 1)


def radix_sort_storage(
    count: int, key: int, value: int, bits: int, profile: DeviceProfile, *, int32: bool = False
) -> int | None:
    """Returns the storage bytes of a radix sort of pairs, or of keys alone, without ``value``.

    ``key`` and ``value`` are bytes; the last ``bits`` of the keys are sorted by. Returns None if
    CUB uses another algorithm, whose storage depends on occupancy.
    """
    if count <= one_tile(key, value):
        return 1
    if profile.kernels is None:
        return None
    column = sum(profile.kernels >= first for first in _SORT_COLUMNS)
    tile = _SORT_TILES.get((key, value), (0, 0, 0))[column]
    if int32 and not value and profile.kernels >= (9, 0):
        tile = _INT32_TILE
    if not tile:
        return None
    passes = -(-bits // 8)
    again = passes > 1  # into other buffers
    return _storage(
        passes * _DIGITS * 8,
        -(-count // tile) * _DIGITS * 4,
        count * key * again,
        count * value * again,
        passes * 4,
    )


def segmented_sort_storage(count: int, key: int, value: int) -> int:
    """Returns the storage bytes of a radix sort of segments: a second buffer for both arrays."""
    return _storage(count * key, count * value)


def unique_storage(count: int, itemsize: int, profile: DeviceProfile) -> int | None:
    """Returns the storage bytes of a unique-by-key of keys and values of int32 or int64.

    Returns None for a device without kernels.
    """
    if profile.kernels is None:
        return None
    column = 2 if profile.kernels >= (9, 0) else int(profile.kernels == (8, 0))
    tile = _BY_KEY_TILES[itemsize][column]
    return _storage(_states(count, tile) * 16 + _ALIGNMENT - 1)


def sum_storage(count: int, profile: DeviceProfile) -> int:
    """Returns the storage bytes of a sum of int32 numbers, made from elements of a real dtype.

    From the second tile on, each block that the device can hold at once writes a number for each
    of five waves (dispatch_reduce.cuh). A kernel has 256 threads, and few enough registers that
    only the number of threads limits how many blocks a multiprocessor holds.
    """
    if count <= _SUM_TILE:
        return 1
    blocks = profile.architecture.threads_per_multiprocessor // _SUM_THREADS
    return _storage(profile.multiprocessors * blocks * _SUM_WAVES * 4)


def select_storage(count: int, profile: DeviceProfile) -> int | None:
    """Returns the storage bytes of a selection of int64 places by flags (tuning_select_if.cuh).

    Returns None for a device without kernels, and for kernels whose tile is not known.
    """
    return _of_words(count, _SELECT_TILES.get(profile.kernels))


def unique_elements_storage(count: int, itemsize: int, profile: DeviceProfile) -> int | None:
    """Returns the storage bytes of a selection of elements that differ from the one before.

    Returns None for elements or kernels whose tile is not known, and for a device without kernels.
    """
    return _of_words(count, _UNIQUE_TILES.get((profile.kernels, itemsize)))


def _of_words(count: int, tile: int | None) -> int | None:
    """Returns the storage of a selection, whose tiles have a word each; None without a tile."""
    return None if tile is None else _storage(_states(count, tile) * 8 + _ALIGNMENT - 1)


def number_scan_storage(count: int, profile: DeviceProfile) -> int:
    """Returns the storage bytes of a scan that numbers groups of elements."""
    tile = _NUMBER_TILES.get(profile.kernels, _SMALLEST_NUMBER_TILE)
    return _storage(_states(count, tile) * 16)


def run_lengths_storage(count: int) -> int:
    """Returns the storage bytes of a run-length encoding."""
    return _storage(_states(count, _RUN_TILE) * 16)
