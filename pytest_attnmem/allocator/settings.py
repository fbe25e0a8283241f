"""What ``PYTORCH_ALLOC_CONF`` can change, and the sizes that follow from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MIB: Final = 1 << 20

# c10/core/AllocatorConfig.h
MIN_BLOCK: Final = 512  # every block is a multiple of it
SMALL_SIZE: Final = MIB  # the largest block of the small pool
SMALL_SEGMENT: Final = 2 * MIB  # what blocks of the small pool are cut from
MIN_LARGE: Final = 10 * MIB  # from here on, a block has a segment of its own
LARGE_ROUNDING: Final = 2 * MIB  # of which that is a multiple

#: Powers of two, from 1 MiB on, that may each be rounded in a way of their own. The first one's
#: holds below it too, and the last one's above.
INTERVALS: Final = 16


@dataclass(frozen=True, slots=True)
class AllocatorSettings:
    """The settings of PyTorch 2.13's allocator that change what it allocates. All in bytes."""

    max_split_size: int | None = None  # blocks of this size or larger are not split; None: all are
    max_non_split_rounding: int = 20 * MIB  # how much larger than asked such a block may be
    large_segment_size: int = 20 * MIB  # what blocks from 1 to 10 MiB are cut from
    roundup_power2_divisions: tuple[int, ...] = (0,) * INTERVALS  # per interval; 0: to 512 B
    expandable_segments: bool = False
    garbage_collection_threshold: float = 0.0  # a share of the allowed memory; 0: none collected
    per_process_memory_fraction: float = 1.0  # of the device
    throw_on_cudamalloc_oom: bool = (
        False  # refuse what exceeds the fraction without emptying the cache
    )

    def block_size(self, nbytes: int) -> int:
        """The block, in bytes, that *nbytes* need, one at least (``round_size``)."""
        if nbytes > MIN_BLOCK:
            interval = min(max(nbytes.bit_length() - MIB.bit_length(), 0), INTERVALS - 1)
            divisions = self.roundup_power2_divisions[interval]
            if divisions > 1 and nbytes > MIN_BLOCK * divisions:
                # A power of two and the next are this many steps apart.
                step = (1 << nbytes.bit_length() - 1) // divisions
                return -(-nbytes // step) * step
        return -(-nbytes // MIN_BLOCK) * MIN_BLOCK

    def segment_size(self, block: int) -> int:
        """The segment, in bytes, that a new block is cut from (``get_allocation_size``)."""
        if block <= SMALL_SIZE:
            return SMALL_SEGMENT
        if block < MIN_LARGE:
            return self.large_segment_size
        return -(-block // LARGE_ROUNDING) * LARGE_ROUNDING
