"""Blocks, pools of free blocks, and expandable segments."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

#: Addresses are below this power of two, as on every device.
_ADDRESS_BITS: Final = 57


class Block:
    """A part of a segment: in use, free or, in an expandable segment, unmapped."""

    __slots__ = (
        *("address", "size", "stream", "pool", "previous", "next", "vacant", "requested"),
        *("expandable", "mapped", "other_streams", "gc_count_base"),
    )

    def __init__(self, address: int, size: int, stream: int, pool: Pool) -> None:
        self.address = address
        self.size = size  # bytes
        self.stream = stream
        self.pool = pool
        self.previous: Block | None = None  # in its segment, by address
        self.next: Block | None = None
        self.vacant = True  # neither in use nor awaiting another stream
        self.requested = 0  # bytes that the caller asked for
        self.expandable: ExpandableSegment | None = None
        self.mapped = True
        self.other_streams = False  # True if streams other than its own use it
        self.gc_count_base = 0  # the pool's number of searches when the block became free

    @property
    def whole(self) -> bool:
        """Returns True if it is all of its segment."""
        return self.previous is None and self.next is None

    def cut(self, size: int) -> Block:
        """Splits off the first *size* bytes and returns them as a new block."""
        front = Block(self.address, size, self.stream, self.pool)
        front.expandable = self.expandable
        front.mapped = self.mapped
        front.previous = before = self.previous
        if before is not None:
            before.next = front
        front.next = self
        self.previous = front
        self.address += size
        self.size -= size
        return front

    def absorb(self, neighbour: Block | None) -> int:
        """Merges with a vacant neighbour that is as mapped as this one; returns its bytes or 0."""
        if neighbour is None or not neighbour.vacant or neighbour.mapped is not self.mapped:
            return 0
        if neighbour.mapped:
            neighbour.pool.remove(neighbour)
        else:
            neighbour.pool.remove_unmapped(neighbour)
        if neighbour is self.previous:
            self.address = neighbour.address
            self.previous = before = neighbour.previous
            if before is not None:
                before.next = self
        else:
            self.next = after = neighbour.next
            if after is not None:
                after.previous = self
        self.size += neighbour.size
        return neighbour.size


class FreeList:
    """The free blocks of one stream, ordered by size and then address."""

    __slots__ = ("_blocks", "_order")

    def __init__(self) -> None:
        self._order: list[int] = []
        self._blocks: dict[int, Block] = {}

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, index: int) -> Block:
        return self._blocks[self._order[index]]

    def __iter__(self) -> Iterator[Block]:
        return map(self._blocks.__getitem__, self._order)

    def first_from(self, size: int) -> int:
        """Returns the index of the smallest block of at least *size* bytes."""
        return bisect_left(self._order, size << _ADDRESS_BITS)

    def add(self, block: Block) -> None:
        """Inserts a block."""
        key = block.size << _ADDRESS_BITS | block.address
        insort(self._order, key)
        self._blocks[key] = block

    def take(self, size: int) -> Block | None:
        """Removes and returns the smallest block of at least *size* bytes, or None."""
        order = self._order
        index = bisect_left(order, size << _ADDRESS_BITS)
        return self._blocks.pop(order.pop(index)) if index < len(order) else None

    def pop(self, index: int) -> Block:
        """Removes and returns the block at an index."""
        return self._blocks.pop(self._order.pop(index))

    def remove(self, block: Block) -> None:
        """Removes a block, whose size and address must be the same as when it was added."""
        key = block.size << _ADDRESS_BITS | block.address
        del self._order[bisect_left(self._order, key)]
        del self._blocks[key]


class Pool:
    """The free and the unmapped blocks of the small or of the large pool, by stream."""

    def __init__(self, small: bool) -> None:
        self.small = small
        self.searches = 0  # counted for garbage collection
        self.free: dict[int, FreeList] = {}
        self._unmapped: dict[int, list[Block]] = {}  # ordered by their place on the device

    def add(self, block: Block) -> None:
        """Adds a free block."""
        block.vacant = True
        block.gc_count_base = self.searches
        free = self.free.get(block.stream)
        if free is None:
            free = self.free[block.stream] = FreeList()
        free.add(block)

    def remove(self, block: Block) -> None:
        """Removes a free block."""
        self.free[block.stream].remove(block)

    def blocks(self) -> list[Block]:
        """Returns the free blocks of every stream."""
        return [block for free in self.free.values() for block in free]

    def unmapped(self, stream: int) -> list[Block]:
        """Returns the unmapped blocks of a stream, in the order of their places on the device."""
        return self._unmapped.get(stream, [])

    def add_unmapped(self, block: Block) -> None:
        """Adds an unmapped block."""
        insort(self._unmapped.setdefault(block.stream, []), block, key=_place)

    def remove_unmapped(self, block: Block) -> None:
        """Removes an unmapped block."""
        blocks = self._unmapped[block.stream]
        del blocks[bisect_left(blocks, _place(block), key=_place)]


def _place(block: Block) -> int:
    return block.address if block.expandable is None else block.expandable.place_of(block.address)


class ExpandableSegment:
    """A reserved range of addresses, into which pages are mapped."""

    __slots__ = ("address", "page", "place", "size")

    def __init__(self, address: int, place: int, size: int, page: int) -> None:
        self.address = address  # addresses are ordered by the creation of segments
        self.place = place  # its address on the device
        self.size = size  # bytes, a multiple of the page
        self.page = page  # bytes

    def place_of(self, address: int) -> int:
        """Returns the address on the device."""
        return address - self.address + self.place

    def page_below(self, address: int) -> int:
        """Returns the nearest page boundary at or below an address."""
        return address - (address - self.address) % self.page

    def page_above(self, address: int) -> int:
        """Returns the nearest page boundary at or above an address."""
        return address + (self.address - address) % self.page
