"""Expandable segments: a range of addresses for each pool and stream, mapped page by page."""

from __future__ import annotations

from bisect import bisect_left, insort

from .blocks import Block, ExpandableSegment, Pool
from .configuration import MIN_BLOCK, SMALL_SEGMENT, AllocatorSettings
from .segments import DeviceMemory, Segments
from .statistics import DeviceStats


class ExpandableSegments(Segments):
    """The source of blocks under ``expandable_segments:True``."""

    counts_splits = False

    def __init__(
        self, settings: AllocatorSettings, device: DeviceMemory, stats: DeviceStats
    ) -> None:
        super().__init__(settings, device, stats)
        self._space = AddressSpace()

    def find(self, pool: Pool, stream: int, size: int) -> Block | None:
        """Removes and returns the free block that fits best.

        A block counts with the unmapped addresses after it.
        """
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
        """Returns True if *size* bytes are not all of a block."""
        return block.size - size >= MIN_BLOCK

    def obtain(self, pool: Pool, stream: int, size: int) -> Block | None:
        """Maps pages at the lowest address with enough free and unmapped bytes; returns the block.

        Pages stay mapped if the device has too few of them (``try_allocate_expandable_block``).
        """
        if not self.admits(self._settings.segment_size(size)):
            return None
        block: Block | None = self._room(pool, stream, size)
        if block is not None and not block.mapped:
            block = self._map(block, size)
        while block is not None and block.size < size:
            # Unmapped addresses follow the free block; mapping them merges the two.
            block = self._map(block.next, size - block.size)
        if block is not None:
            pool.remove(block)
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
        pool.add_unmapped(block)
        return block

    def _map(self, block: Block | None, size: int) -> Block | None:
        """Maps the first *size* bytes of a block, or all of a smaller one (``map_block``).

        Returns the mapped block, merged with its free neighbours, or None if the device is full.
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
            pool.remove_unmapped(block)
        block.mapped = True
        block.absorb(block.previous)
        block.absorb(block.next)
        pool.add(block)
        self._stats.reserved.increase(nbytes)
        self._stats.device_allocs += 1
        return block

    def release(self, pool: Pool) -> None:
        """Releases the pages that free blocks cover completely (``unmap_block``)."""
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
        pool.remove(block)
        if start > block.address:
            pool.add(block.cut(start - block.address))
        if nbytes < block.size:
            rest, block = block, block.cut(nbytes)
            pool.add(rest)
        block.mapped = False
        block.absorb(block.previous)
        block.absorb(block.next)
        self._device.destroy(nbytes)
        self._stats.reserved.increase(-nbytes)
        self._stats.device_frees += 1
        if block.whole:
            self._space.give_back(segment.place, segment.size)
        else:
            pool.add_unmapped(block)

    def release_large(self, pool: Pool, stream: int, size: int) -> bool:
        """Returns False: expandable segments are not released this way."""
        return False

    def collect_garbage(self, pool: Pool) -> None:
        """Does nothing: expandable segments are not collected."""


def _reach(block: Block) -> int:
    after = block.next
    return block.size + (after.size if after is not None and not after.mapped else 0)


def _has_room(block: Block, size: int) -> bool:
    at: Block | None = block
    while size > 0 and at is not None and at.vacant:
        size -= at.size
        at = at.next
    return size <= 0


#: The start and the end of a free stretch of addresses.
Gap = tuple[int, int]


class AddressSpace:
    """A space of addresses that takes the lowest gap that fits, as the null device does."""

    def __init__(self) -> None:
        self._gaps: list[Gap] = []  # below the end, not adjacent, ascending
        self._end = 0  # every address from here on is free

    def take(self, nbytes: int) -> int:
        """Returns the address of that many bytes."""
        for start, end in self._gaps:
            if end - start >= nbytes:
                self._gaps.remove((start, end))
                if end - start > nbytes:
                    insort(self._gaps, (start + nbytes, end))
                return start
        address = self._end
        self._end += nbytes
        return address

    def give_back(self, address: int, nbytes: int) -> None:
        """Frees the bytes at an address that ``take`` returned."""
        start, end = address, address + nbytes
        index = bisect_left(self._gaps, (start, end))
        if index < len(self._gaps) and self._gaps[index][0] == end:
            end = self._gaps.pop(index)[1]
        if index and self._gaps[index - 1][1] == start:
            start = self._gaps.pop(index - 1)[0]
        if end == self._end:
            self._end = start
        else:
            insort(self._gaps, (start, end))
