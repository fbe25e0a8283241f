"""The caching allocator: it allocates blocks, and keeps freed blocks for later allocations.

It follows ``DeviceCachingAllocator`` of c10/cuda/CUDACachingAllocator.cpp, PyTorch 2.13; docstrings
give its names in parentheses where ours differ. User pools and pools of CUDA graphs are not
modelled.
"""

from __future__ import annotations

from typing import Final

from ..errors import SizeError
from .blocks import Block, Pool
from .configuration import SMALL_SIZE, AllocatorSettings
from .errors import AddressError, AllocationError
from .expandable import ExpandableSegments
from .segments import DeviceMemory, Rejected, Segments
from .statistics import DeviceStats, Statistics

DEFAULT: Final = AllocatorSettings()


class CachingAllocator:
    """The caching allocator of one device. A stream is any integer; 0 is the default stream.

    Args:
        settings: its configuration.
        capacity: memory of the device, in bytes.
        taken: bytes of the memory in other use, such as the CUDA context.
    """

    def __init__(
        self,
        settings: AllocatorSettings = DEFAULT,
        *,
        capacity: int,
        taken: int = 0,
    ) -> None:
        if not 0 <= taken <= capacity:
            raise SizeError(f"taken is {taken} bytes of {capacity}; expected 0 to {capacity}")
        self._settings = settings
        self._device = DeviceMemory(capacity, taken)
        self._stats = DeviceStats()
        kind = ExpandableSegments if settings.expandable_segments else Segments
        self._segments = kind(settings, self._device, self._stats)
        self._small, self._large = Pool(small=True), Pool(small=False)
        self._in_use: dict[int, Block] = {}
        self._awaited: list[Block] = []

    def extend(self, nbytes: int) -> None:
        """Gives the device so many more bytes; a negative number takes them away again."""
        self._device.free += nbytes

    def malloc(self, nbytes: int, stream: int = 0) -> int:
        """Allocates on a stream and returns the address; 0 for 0 bytes.

        Raises:
            AllocationError: it does not fit; only the cache has changed.
            SizeError: the size is negative.
        """
        if nbytes <= 0:
            if nbytes < 0:
                raise SizeError(f"cannot allocate {nbytes} bytes; expected 0 or more")
            return 0
        if self._awaited:
            self._settle()
        size = self._settings.block_size(nbytes)
        pool = self._small if size <= SMALL_SIZE else self._large
        block = self._segments.find(pool, stream, size)
        if block is None:
            block = self._obtain(pool, stream, size, nbytes)
        stats, counts_splits = self._stats, self._segments.counts_splits
        if block.size != size and self._segments.should_split(block, size):
            was_whole = block.whole
            block, rest = block.cut(size), block
            pool.add(rest)
            if counts_splits:
                stats.inactive_split.increase(rest.size if was_whole else -size)
        elif counts_splits and not block.whole:
            stats.inactive_split.increase(-block.size)
        block.vacant = False
        block.requested = nbytes
        self._in_use[block.address] = block
        stats.took(nbytes, block.size)
        return block.address

    def free(self, address: int) -> None:
        """Frees the block at an address that malloc returned; 0 does nothing.

        A block that other streams use stays active until the next malloc.

        Raises:
            AddressError: nothing is allocated there.
        """
        if address == 0:
            return
        block = self._in_use.pop(address, None)
        if block is None:
            raise AddressError(f"nothing is allocated at {address:#x}, so it cannot be freed")
        self._stats.allocated.current -= block.size
        if block.other_streams:
            block.other_streams = False
            self._awaited.append(block)
        else:
            self._vacate(block)

    def record_stream(self, address: int, stream: int) -> None:
        """Records that another stream uses a block (``Tensor.record_stream``).

        On a device, time decides when that stream is done with a freed block. Here it is done at
        the next malloc or empty_cache, the earliest moment at which the allocator checks.

        Raises:
            AddressError: nothing is allocated there.
        """
        if address == 0:
            return
        block = self._in_use.get(address)
        if block is None:
            raise AddressError(f"nothing is allocated at {address:#x}, so no stream can use it")
        if stream != block.stream:
            block.other_streams = True

    def empty_cache(self) -> None:
        """Releases every free segment, and every free page of expandable segments."""
        self._settle()
        self._segments.release(self._large)
        self._segments.release(self._small)

    def reset_peak(self) -> None:
        """Sets every peak to the current amount."""
        for stat in self._stats.peaked():
            stat.reset_peak()

    @property
    def statistics(self) -> Statistics:
        """Returns a snapshot of the statistics."""
        return self._stats.read()

    def size_of(self, address: int) -> int:
        """Returns the bytes of the block at an address that malloc returned.

        Raises:
            AddressError: nothing is allocated there.
        """
        block = self._in_use.get(address)
        if block is None:
            raise AddressError(f"nothing is allocated at {address:#x}, so it has no size")
        return block.size

    def _obtain(self, pool: Pool, stream: int, size: int, nbytes: int) -> Block:
        """Returns a block from the device, and releases cached memory if it needs to."""
        segments, stats = self._segments, self._stats
        segments.collect_garbage(self._large)
        try:
            block = segments.obtain(pool, stream, size)
            if block is None and segments.release_large(pool, stream, size):
                block = segments.obtain(pool, stream, size)
            if block is None:
                self.empty_cache()
                stats.alloc_retries += 1
                block = segments.obtain(pool, stream, size)
            if block is not None:
                return block
            stats.ooms += 1
        except Rejected:
            stats.oom_rejections += 1
        raise self._out_of_memory(nbytes, size)

    def _out_of_memory(self, nbytes: int, size: int) -> AllocationError:
        allocated, reserved = self._stats.allocated.current, self._stats.reserved.current
        capacity, free = self._device.capacity, self._device.free
        allowed = self._segments.allowed
        if allowed is not None:
            capacity, free = allowed, min(free, max(allowed - reserved, 0))
        segment = self._settings.segment_size(size)
        return AllocationError(nbytes, segment, capacity, free, allocated, reserved)

    def _settle(self) -> None:
        """Frees the blocks that other streams were using (``process_events``)."""
        awaited, self._awaited = self._awaited, []
        for block in awaited:
            self._vacate(block)

    def _vacate(self, block: Block) -> None:
        """Merges a block with its free neighbours and adds it to its pool (``free_block``)."""
        stats = self._stats
        stats.requested.current -= block.requested
        stats.active.current -= block.size
        change, before, after = 0, block.previous, block.next
        if before is not None and before.vacant:
            change = -block.absorb(before)
        if after is not None and after.vacant:
            change -= block.absorb(after)
        block.pool.add(block)
        if self._segments.counts_splits:
            if not block.whole:
                change += block.size
            stats.inactive_split.increase(change)
