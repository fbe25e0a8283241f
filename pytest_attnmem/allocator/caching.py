"""The caching allocator: hands out blocks, and keeps what is freed for the next.

After ``DeviceCachingAllocator`` of c10/cuda/CUDACachingAllocator.cpp, PyTorch 2.13, whose names
are given where ours differ. Memory pools of the user's and those of CUDA graphs are not modelled.
"""

from __future__ import annotations

from typing import Final

from ..errors import SizeError
from .blocks import Block, Pool
from .device import DeviceMemory
from .errors import AddressError, OutOfMemory
from .expandable import ExpandableSegments
from .segments import Rejected, Segments
from .settings import SMALL_SIZE, AllocatorSettings
from .statistics import Ledger, Statistics

DEFAULT: Final = AllocatorSettings()


class CachingAllocator:
    """One device's caching allocator. A stream is any integer; 0 is the default one.

    Args:
        settings: how it is configured.
        capacity: memory of the device, in bytes.
        taken: bytes of it that something else holds, such as the CUDA context.
    """

    def __init__(
        self,
        settings: AllocatorSettings = DEFAULT,
        *,
        capacity: int,
        taken: int = 0,
    ) -> None:
        if not 0 <= taken <= capacity:
            raise SizeError(f"{taken} bytes of {capacity} are taken; expected 0 to all of them")
        self._settings = settings
        self._device = DeviceMemory(capacity, taken)
        self._ledger = Ledger()
        kind = ExpandableSegments if settings.expandable_segments else Segments
        self._segments = kind(settings, self._device, self._ledger)
        self._small, self._large = Pool(small=True), Pool(small=False)
        self._in_use: dict[int, Block] = {}
        self._awaited: list[Block] = []

    def malloc(self, nbytes: int, stream: int = 0) -> int:
        """Allocate for a stream; the address, or 0 for 0 bytes.

        Raises:
            OutOfMemory: it does not fit, and everything else is as it was, but for the cache.
            SizeError: a negative size.
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
        ledger, counts_splits = self._ledger, self._segments.counts_splits
        if self._segments.should_split(block, size):
            was_whole = block.whole
            block, rest = block.cut(size), block
            pool.add(rest)
            if counts_splits:
                ledger.inactive_split.rise(rest.size if was_whole else -size)
        elif counts_splits and not block.whole:
            ledger.inactive_split.fall(block.size)
        block.vacant = False
        block.requested = nbytes
        self._in_use[block.address] = block
        ledger.requested.rise(nbytes)
        ledger.allocated.rise(block.size)
        ledger.active.rise(block.size)
        return block.address

    def free(self, address: int) -> None:
        """Free what malloc returned; 0 is nothing.

        What other streams use stays active, and is free from the next malloc on.

        Raises:
            AddressError: nothing is allocated there.
        """
        if address == 0:
            return
        block = self._in_use.pop(address, None)
        if block is None:
            raise AddressError(f"nothing is allocated at {address:#x}, so it cannot be freed")
        self._ledger.allocated.fall(block.size)
        if block.other_streams:
            block.other_streams = False
            self._awaited.append(block)
        else:
            self._vacate(block)

    def record_stream(self, address: int, stream: int) -> None:
        """Say that another stream uses a block (``Tensor.record_stream``).

        When that stream is done with a freed block depends on time. Here it is by the next
        malloc or empty_cache, which is the earliest that the allocator looks.

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
        """Give back to the device every segment, or page of an expandable one, that is free."""
        self._settle()
        self._segments.release(self._large)
        self._segments.release(self._small)

    def reset_peak(self) -> None:
        """Every peak becomes what there is now."""
        for gauge in self._ledger.levels():
            gauge.reset_peak()

    @property
    def statistics(self) -> Statistics:
        """The counters as they are now."""
        return self._ledger.read()

    def size_of(self, address: int) -> int:
        """Bytes of the block at an address that malloc returned.

        Raises:
            AddressError: nothing is allocated there.
        """
        block = self._in_use.get(address)
        if block is None:
            raise AddressError(f"nothing is allocated at {address:#x}, so it has no size")
        return block.size

    def _obtain(self, pool: Pool, stream: int, size: int, nbytes: int) -> Block:
        """A block that no free one is fit for: from the device, whatever has to go for it."""
        segments, ledger = self._segments, self._ledger
        segments.collect(self._large)
        try:
            block = segments.obtain(pool, stream, size)
            if block is None and segments.release_large(pool, stream, size):
                block = segments.obtain(pool, stream, size)
            if block is None:
                self.empty_cache()
                ledger.alloc_retries += 1
                block = segments.obtain(pool, stream, size)
            if block is not None:
                return block
            ledger.ooms += 1
        except Rejected:
            ledger.oom_rejections += 1
        raise self._out_of_memory(nbytes, size)

    def _out_of_memory(self, nbytes: int, size: int) -> OutOfMemory:
        allocated, reserved = self._ledger.allocated.current, self._ledger.reserved.current
        capacity, free = self._device.capacity, self._device.free
        allowed = self._segments.allowed
        if allowed is not None:
            capacity, free = allowed, min(free, max(allowed - reserved, 0))
        segment = self._settings.segment_size(size)
        return OutOfMemory(nbytes, segment, capacity, free, allocated, reserved)

    def _settle(self) -> None:
        """Free what other streams were using (``process_events``)."""
        awaited, self._awaited = self._awaited, []
        for block in awaited:
            self._vacate(block)

    def _vacate(self, block: Block) -> None:
        """Back to the free blocks, merged with its neighbours (``free_block``)."""
        ledger = self._ledger
        ledger.requested.fall(block.requested)
        ledger.active.fall(block.size)
        change = -block.absorb(block.previous)
        change -= block.absorb(block.next)
        block.pool.add(block)
        if self._segments.counts_splits:
            if not block.whole:
                change += block.size
            ledger.inactive_split.rise(change)
