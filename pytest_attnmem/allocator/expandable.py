"""Expandable segments: a wide stretch of addresses for each pool and stream, mapped by pages."""

from __future__ import annotations

from .blocks import Block, ExpandableSegment, Pool
from .device import DeviceMemory
from .segments import Segments
from .settings import MIN_BLOCK, SMALL_SEGMENT, AllocatorSettings
from .space import AddressSpace
from .statistics import Ledger


class ExpandableSegments(Segments):
    """Where blocks come from under ``expandable_segments:True``."""

    counts_splits = False

    def __init__(self, settings: AllocatorSettings, device: DeviceMemory, ledger: Ledger) -> None:
        super().__init__(settings, device, ledger)
        self._space = AddressSpace()

    def find(self, pool: Pool, stream: int, size: int) -> Block | None:
        """The best fit, a block at the end of what is mapped being as large as it can become."""
        free = pool.free.get(stream)
        if free is None:
            return None
        index = free.first_from(size)
        if index == len(free):
            return None
        while index + 1 < len(free) and _reach(free[index + 1]) < _reach(free[index]):
            index += 1
        limit = self._settings.max_split_size
        if limit is not None and self._too_large(free[index], size, limit):
            return None
        return free.pop(index)

    def should_split(self, block: Block, size: int) -> bool:
        """Whether *size* bytes leave anything of a block."""
        return block.size - size >= MIN_BLOCK

    def obtain(self, pool: Pool, stream: int, size: int) -> Block | None:
        """Map pages at the lowest address where, with what is free there, there is room.

        What was mapped stays so if the device's memory ends before there is enough
        (``try_allocate_expandable_block``).
        """
        if not self.admits(self._settings.segment_size(size)):
            return None
        block: Block | None = self._room(pool, stream, size)
        if block is not None and not block.mapped:
            block = self._map(block, size)
        while block is not None and block.size < size:
            # What is free is followed by what has no pages; mapping that merges the two.
            block = self._map(block.next, size - block.size)
        if block is not None:
            pool.discard(block)
        return block

    def _room(self, pool: Pool, stream: int, size: int) -> Block:
        for block in pool.unmapped(stream):
            before = block.previous
            start = block if before is None or not before.vacant else before
            if _has_room(start, size):
                return start
        page = SMALL_SEGMENT if pool.small else self._settings.large_segment_size
        capacity = self._device.capacity
        reserved = -(-(capacity + capacity // 8) // page) * page
        address, place = self._device.reserve(reserved), self._space.take(reserved)
        block = Block(address, reserved, stream, pool)
        block.expandable = ExpandableSegment(address, place, reserved, page)
        block.mapped = False
        pool.remember(block)
        return block

    def _map(self, block: Block | None, size: int) -> Block | None:
        """Give pages to the first *size* bytes of a block, or to as many as it has (``map_block``).

        What has them then, merged with its free neighbours; ``None`` where the device is full.
        """
        if block is None or block.expandable is None:
            return None
        end = block.expandable.page_above(block.address + min(size, block.size))
        nbytes = end - block.address
        if not self._device.create(nbytes):
            return None
        pool = block.pool
        if nbytes < block.size:
            block = block.cut(nbytes)
        else:
            pool.forget(block)
        block.mapped = True
        block.absorb(block.previous)
        block.absorb(block.next)
        pool.add(block)
        self._ledger.reserved.rise(nbytes)
        self._ledger.device_allocs += 1
        return block

    def release(self, pool: Pool) -> None:
        """Give the pages back that free blocks cover (``unmap_block``)."""
        for block in pool.blocks():
            self._unmap(block)

    def _unmap(self, block: Block) -> None:
        segment, pool = block.expandable, block.pool
        if segment is None:
            return
        start = segment.page_above(block.address)
        end = segment.page_below(block.address + block.size)
        nbytes = end - start
        if nbytes <= 0:
            return
        pool.discard(block)
        if start > block.address:
            pool.add(block.cut(start - block.address))
        if nbytes < block.size:
            rest, block = block, block.cut(nbytes)
            pool.add(rest)
        block.mapped = False
        block.absorb(block.previous)
        block.absorb(block.next)
        self._device.destroy(nbytes)
        self._ledger.reserved.fall(nbytes)
        self._ledger.device_frees += 1
        if block.whole:
            self._space.give_back(segment.place, segment.size)
        else:
            pool.remember(block)

    def release_large(self, pool: Pool, stream: int, size: int) -> bool:
        """Nothing of an expandable segment is given back so."""
        return False

    def collect(self, pool: Pool) -> None:
        """Nor so."""


def _reach(block: Block) -> int:
    after = block.next
    return block.size + (after.size if after is not None and not after.mapped else 0)


def _has_room(block: Block, size: int) -> bool:
    at: Block | None = block
    while size > 0 and at is not None and at.vacant:
        size -= at.size
        at = at.next
    return size <= 0
