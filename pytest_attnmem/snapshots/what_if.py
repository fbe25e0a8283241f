"""The events of a snapshot, replayed through the allocator's model under other settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..allocator import AllocationError, CachingAllocator, parse_settings
from .peak import before
from .snapshot import DeviceHistory

#: Settings that users try against fragmentation.
CANDIDATES: Final = (
    "expandable_segments:True",
    *(f"max_split_size_mb:{size}" for size in (32, 64, 128, 256, 512)),
    *(f"roundup_power2_divisions:{divisions}" for divisions in (2, 4, 8, 16)),
    "expandable_segments:True,roundup_power2_divisions:4",
)
#: Settings that act only where memory is scarce.
SCARCE: Final = tuple(f"garbage_collection_threshold:{share}" for share in ("0.6", "0.8"))
#: More than any device has: memory without a limit.
UNLIMITED: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of one setting."""

    configuration: str
    """The text of ``PYTORCH_CUDA_ALLOC_CONF``; empty for the defaults."""
    reserved_bytes: int
    """The peak of the segments."""
    allocated_bytes: int
    """The peak of the blocks, with their rounding."""
    out_of_memory: str = ""
    """The request that did not fit, if one did not."""


def replay(history: DeviceHistory, configuration: str, capacity: int = UNLIMITED) -> Replayed:
    """Returns the peaks of a device's events under a configuration.

    Blocks from before the first event are allocated first, by address. Where the program emptied
    the cache, the replay does so too.

    Raises:
        AllocatorSettingsError: the configuration cannot be parsed.
    """
    allocator = CachingAllocator(parse_settings(configuration), capacity=capacity)
    places: dict[int, int] = {}
    try:
        for block in before(history):
            places[block.address] = allocator.malloc(block.size, block.stream)
        emptying = False
        for event in history.events:
            returned = event.action in ("segment_free", "segment_unmap")
            if returned and not emptying:
                allocator.empty_cache()
            emptying = returned
            if event.action == "alloc":
                allocator.free(places.pop(event.address, 0))  # its free is not in the events
                places[event.address] = allocator.malloc(event.size, event.stream)
            elif event.action == "free_completed" and event.address in places:
                allocator.free(places.pop(event.address))
    except AllocationError as error:
        return Replayed(configuration, *_peaks(allocator), str(error).partition(";")[0])
    return Replayed(configuration, *_peaks(allocator))


def _peaks(allocator: CachingAllocator) -> tuple[int, int]:
    statistics = allocator.statistics
    return statistics.reserved.peak, statistics.allocated.peak


def what_if(
    history: DeviceHistory, more: Iterable[str] = (), capacity: int = UNLIMITED
) -> list[Replayed]:
    """Returns the results, the best first: that of the fewest segments, the simplest of equals."""
    tried = dict.fromkeys(["", history.configuration, *CANDIDATES])
    if capacity < UNLIMITED:
        tried |= dict.fromkeys(SCARCE)
    tried |= dict.fromkeys(more)
    results = [replay(history, configuration, capacity) for configuration in tried]
    return sorted(
        results,
        key=lambda one: (bool(one.out_of_memory), one.reserved_bytes, len(one.configuration)),
    )
