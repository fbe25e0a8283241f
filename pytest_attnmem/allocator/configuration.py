"""The settings in ``PYTORCH_ALLOC_CONF``, as in PyTorch 2.13, and the sizes that they decide.

The syntax is that of c10/core/AllocatorConfig.cpp and c10/cuda/CUDAAllocatorConfig.cpp:
``key:value,key:[size:value,>:value]``, with spaces anywhere. PyTorch reads a number such as
``128MB`` in part; here it is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any, Final

from ..units import excerpt, shown
from .errors import AllocatorSettingsError

MIB: Final = 1 << 20

# c10/core/AllocatorConfig.h
MIN_BLOCK: Final = 512  # block sizes are multiples of it
SMALL_SIZE: Final = MIB  # the largest block of the small pool
SMALL_SEGMENT: Final = 2 * MIB  # the segment of blocks of the small pool
MIN_LARGE: Final = 10 * MIB  # a block of this size or larger has a segment of its own
LARGE_ROUNDING: Final = 2 * MIB  # such a segment is a multiple of it

#: The number of powers of two, from 1 MiB on, that have a rounding of their own. The first
#: rounding applies below it too, and the last one above it.
INTERVALS: Final = 16
#: The default: every block is a multiple of 512 B.
_TO_MIN_BLOCK: Final = (0,) * INTERVALS


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """The settings of PyTorch 2.13's allocator that change its allocations. Sizes are bytes."""

    max_split_size: int | None = None  # larger or equal blocks are not split; None: all are
    max_non_split_rounding: int = 20 * MIB  # the most bytes that such a block may have in excess
    large_segment_size: int = 20 * MIB  # the segment of blocks from 1 to 10 MiB
    roundup_power2_divisions: tuple[int, ...] = _TO_MIN_BLOCK  # per interval; 0: to 512 B
    expandable_segments: bool = False
    garbage_collection_threshold: float = 0.0  # a share of the allowed memory; 0: no collection
    per_process_memory_fraction: float = 1.0  # of the device
    throw_on_cudamalloc_oom: bool = False  # refuse without emptying the cache

    def block_size(self, nbytes: int) -> int:
        """Returns the bytes of the block for *nbytes* >= 1 (``round_size``)."""
        if nbytes > MIN_BLOCK and self.roundup_power2_divisions is not _TO_MIN_BLOCK:
            interval = min(max(nbytes.bit_length() - MIB.bit_length(), 0), INTERVALS - 1)
            divisions = self.roundup_power2_divisions[interval]
            if divisions > 1 and nbytes > MIN_BLOCK * divisions:
                # A power of two and the next one are *divisions* steps apart.
                step = (1 << nbytes.bit_length() - 1) // divisions
                return -(-nbytes // step) * step
        return -(-nbytes // MIN_BLOCK) * MIN_BLOCK

    def segment_size(self, block: int) -> int:
        """Returns the bytes of the segment for a new block (``get_allocation_size``)."""
        if block <= SMALL_SIZE:
            return SMALL_SEGMENT
        if block < MIN_LARGE:
            return self.large_segment_size
        return -(-block // LARGE_ROUNDING) * LARGE_ROUNDING


#: Variables by precedence; a variable that is set, even to nothing, hides those after it.
VARIABLES: Final = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF")

_ENTRY: Final = re.compile(r"([^,:\[\]]+):(\[[^\[\]]*\]|[^,:\[\]]+)(?:,|$)")
_WHOLE: Final = re.compile(r"\+?[0-9]{1,19}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
_MOST_MIB: Final = (1 << 64) // MIB - 1

Read = Callable[[str, str, dict[str, Any]], None]


def settings_from(environment: Mapping[str, str]) -> AllocatorSettings:
    """Returns the settings that PyTorch reads from these environment variables.

    Raises:
        AllocatorSettingsError: see ``parse_settings``; or caching is switched off.
    """
    if environment.get("PYTORCH_NO_CUDA_MEMORY_CACHING") == "1":
        raise AllocatorSettingsError(
            "PYTORCH_NO_CUDA_MEMORY_CACHING=1 switches PyTorch's caching allocator off, and only "
            "that allocator is modelled: unset the variable"
        )
    for variable in VARIABLES:
        if variable in environment:
            return parse_settings(environment[variable], source=variable)
        if "PYTORCH_HIP_ALLOC_CONF" in environment:
            raise AllocatorSettingsError(
                "PYTORCH_HIP_ALLOC_CONF applies to some settings and not to others: set "
                f"{VARIABLES[0]} instead"
            )
    return AllocatorSettings()


def parse_settings(text: str, source: str = VARIABLES[1]) -> AllocatorSettings:
    """Returns the settings in a value of ``PYTORCH_ALLOC_CONF``; messages call it *source*.

    Raises:
        AllocatorSettingsError: an unknown key, an ill-formed entry or a value that PyTorch
            refuses; or ``backend:cudaMallocAsync``, which is another allocator.
    """
    try:
        entries = tuple(_entries("".join(text.split())))
        found = asdict(AllocatorSettings())
        # The segment size comes first, because other limits depend on it.
        for key, value in sorted(entries, key=lambda entry: entry[0] != "large_segment_size_mb"):
            _KEYS[key](key, value, found)
    except AllocatorSettingsError as error:
        raise AllocatorSettingsError(f"{source}: {error}") from None
    settings = AllocatorSettings(**found)
    segment = settings.large_segment_size
    if settings.expandable_segments and segment % (2 * MIB):
        raise AllocatorSettingsError(
            f"{source}: expandable_segments:True maps pages of large_segment_size_mb, which must "
            f"be even then, not {segment // MIB}"
        )
    return settings


def _entries(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(text):
        entry = _ENTRY.match(text, at)
        if entry is None:
            raise AllocatorSettingsError(
                f"cannot read '{excerpt(text[at:])}'; expected entries as in "
                "'max_split_size_mb:128,expandable_segments:True'"
            )
        if entry[1] not in _KEYS:
            raise AllocatorSettingsError(
                f"unknown key '{excerpt(entry[1])}'; expected one of {', '.join(_KEYS)}"
            )
        yield entry[1], entry[2]
        at = entry.end()


def _refused(key: str, value: str, accepted: str) -> AllocatorSettingsError:
    return AllocatorSettingsError(f"{key} is {shown(value)}; expected {accepted}")


def _whole(key: str, value: str, least: int, accepted: str) -> int:
    if not _WHOLE.fullmatch(value) or int(value) < least:
        raise _refused(key, value, accepted)
    return int(value)


def _large_segment(key: str, value: str, found: dict[str, Any]) -> None:
    least = MIN_LARGE // MIB + 1
    size = _whole(key, value, least, f"whole MiB, {least} or more")
    found["large_segment_size"] = min(size, _MOST_MIB) * MIB
    found["max_non_split_rounding"] = found["large_segment_size"]


def _at_least_a_segment(key: str, value: str, found: dict[str, Any]) -> None:
    least = found["large_segment_size"] // MIB
    size = _whole(key, value, least, f"whole MiB, {least} (large_segment_size_mb) or more")
    found[key.removesuffix("_mb")] = min(size, _MOST_MIB) * MIB


def _switch(key: str, value: str, found: dict[str, Any]) -> None:
    if value not in ("True", "False"):
        raise _refused(key, value, "True or False")
    found[key] = value == "True"


def _share(key: str, value: str, found: dict[str, Any]) -> None:
    if not _DECIMAL.fullmatch(value) or not 0 < float(value) < 1:
        raise _refused(key, value, "a number between 0 and 1, both excluded")
    found[key] = float(value)


def _fraction(key: str, value: str, found: dict[str, Any]) -> None:
    if not _DECIMAL.fullmatch(value) or not 0 <= float(value) <= 1:
        raise _refused(key, value, "a number from 0 to 1")
    found[key] = float(value)


def _divisions(key: str, value: str, found: dict[str, Any]) -> None:
    if not value.startswith("["):
        accepted = "a power of two, or a list as in [256:1,512:2,>:8]"
        found[key] = (_power_of_two(key, value, accepted),) * INTERVALS
        return
    accepted = "sizes in MiB and their divisions, powers of two or 0, as in [256:1,512:2,>:8]"
    intervals, last, first = list(found[key]), 0, True
    listed = value[1:-1].removesuffix(",")
    for entry in listed.split(",") if listed else ():
        start, _, number = entry.partition(":")
        divisions = 0 if number == "0" else _power_of_two(key, number, accepted, entry)
        if start == ">":
            intervals[last + 1 :] = [divisions] * (INTERVALS - last - 1)
            continue
        size = _power_of_two(key, start, accepted, entry)
        last = min(size.bit_length() - 1, INTERVALS - 1)
        if first:  # everything smaller is divided so as well
            intervals[:last] = [divisions] * last
            first = False
        intervals[last] = divisions
    found[key] = tuple(intervals)


def _power_of_two(key: str, value: str, accepted: str, where: str | None = None) -> int:
    if not _WHOLE.fullmatch(value) or int(value).bit_count() != 1:
        raise _refused(key, where or value, accepted)
    return int(value)


def _backend(key: str, value: str, found: dict[str, Any]) -> None:
    if value == "cudaMallocAsync":
        raise AllocatorSettingsError(
            "backend:cudaMallocAsync is CUDA's own allocator, which is not modelled; "
            "use backend:native"
        )
    if value != "native":
        raise _refused(key, value, "native")


# The settings below change nothing on the device; their values are checked as in PyTorch.


def _threads(key: str, value: str, found: dict[str, Any]) -> None:
    accepted = "a power of two, 128 at most"
    if _power_of_two(key, value, accepted) > 128:
        raise _refused(key, value, accepted)


def _positive(key: str, value: str, found: dict[str, Any]) -> None:
    _whole(key, value, 1, "a whole number, 1 or more")


def _natural(key: str, value: str, found: dict[str, Any]) -> None:
    _whole(key, value, 0, "a whole number")


def _ignored_switch(key: str, value: str, found: dict[str, Any]) -> None:
    _switch(key, value, {})


_KEYS: Final[Mapping[str, Read]] = MappingProxyType(
    {
        "large_segment_size_mb": _large_segment,
        "max_split_size_mb": _at_least_a_segment,
        "max_non_split_rounding_mb": _at_least_a_segment,
        "garbage_collection_threshold": _share,
        "roundup_power2_divisions": _divisions,
        "expandable_segments": _switch,
        "per_process_memory_fraction": _fraction,
        "throw_on_cudamalloc_oom": _switch,
        "backend": _backend,
        "release_lock_on_cudamalloc": _ignored_switch,
        "release_lock_on_hipmalloc": _ignored_switch,
        "graph_capture_record_stream_reuse": _ignored_switch,
        "pinned_use_cuda_host_register": _ignored_switch,
        "pinned_use_hip_host_register": _ignored_switch,
        "pinned_use_background_threads": _ignored_switch,
        "pinned_free_catch_all": _ignored_switch,
        "pinned_num_register_threads": _threads,
        "pinned_reserve_segment_size_mb": _positive,
        "pinned_max_round_threshold_mb": _natural,
        "pinned_max_cached_size_mb": _natural,
    }
)
