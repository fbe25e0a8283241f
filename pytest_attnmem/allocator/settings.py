"""The settings in ``PYTORCH_ALLOC_CONF``, and the sizes of blocks and segments under them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

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
