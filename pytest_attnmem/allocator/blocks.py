"""Blocks, and the free ones in the order in which the allocator looks for them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

#: Addresses are below this power of two, as on every device.
_ADDRESS_BITS: Final = 57


class Block:
    """A stretch of a segment: in use, free, or, in an expandable segment, without pages."""

    __slots__ = (
        *("address", "size", "stream", "pool", "previous", "next", "vacant", "requested"),
        *("expandable", "mapped", "other_streams", "born"),
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
        self.other_streams = False  # whether any besides its own use it
        self.born = 0  # the pool's count of searches when it last became vacant

    @property
    def whole(self) -> bool:
        """Whether it is all of its segment."""
        return self.previous is None and self.next is None

    def cut(self, size: int) -> Block:
        """Split off the first *size* bytes; they are the new block."""
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
        """Merge with a vacant neighbour of the same kind; its bytes, or 0 if it is not one."""
        if neighbour is None or not neighbour.vacant or neighbour.mapped is not self.mapped:
            return 0
        if neighbour.mapped:
            neighbour.pool.discard(neighbour)
        else:
            neighbour.pool.forget(neighbour)
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
    """Free blocks of one stream, by size and then address."""

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
        """The index of the smallest that has *size* bytes."""
        return bisect_left(self._order, size << _ADDRESS_BITS)

    def add(self, block: Block) -> None:
        """Put one in its place."""
        key = block.size << _ADDRESS_BITS | block.address
        insort(self._order, key)
        self._blocks[key] = block

    def pop(self, index: int) -> Block:
        """Take one out."""
        return self._blocks.pop(self._order.pop(index))

    def remove(self, block: Block) -> None:
        """Take one out whose size and address have not changed."""
        key = block.size << _ADDRESS_BITS | block.address
        del self._order[bisect_left(self._order, key)]
        del self._blocks[key]


class Pool:
    """The small or the large blocks that are free, by stream."""

    def __init__(self, small: bool) -> None:
        self.small = small
        self.searches = 0  # counted while garbage is collected
        self.free: dict[int, FreeList] = {}
        self._unmapped: dict[int, list[Block]] = {}  # by their place

    def add(self, block: Block) -> None:
        """A block is free."""
        block.vacant = True
        block.born = self.searches
        free = self.free.get(block.stream)
        if free is None:
            free = self.free[block.stream] = FreeList()
        free.add(block)

    def discard(self, block: Block) -> None:
        """A free block is no longer."""
        self.free[block.stream].remove(block)

    def blocks(self) -> list[Block]:
        """Those that are free now, of every stream."""
        return [block for free in self.free.values() for block in free]

    def unmapped(self, stream: int) -> list[Block]:
        """Addresses without pages, in the order of their places on the device."""
        return self._unmapped.get(stream, [])

    def remember(self, block: Block) -> None:
        """A block has no pages."""
        insort(self._unmapped.setdefault(block.stream, []), block, key=_place)

    def forget(self, block: Block) -> None:
        """A block without pages is gone, or has some."""
        blocks = self._unmapped[block.stream]
        del blocks[bisect_left(blocks, _place(block), key=_place)]


def _place(block: Block) -> int:
    return block.address if block.expandable is None else block.expandable.place_of(block.address)


class ExpandableSegment:
    """A reserved stretch of addresses that pages are mapped into."""

    __slots__ = ("address", "page", "place", "size")

    def __init__(self, address: int, place: int, size: int, page: int) -> None:
        self.address = address  # where the order of addresses is that of segments
        self.place = place  # where the device put it
        self.size = size  # bytes, a multiple of the page
        self.page = page  # bytes

    def place_of(self, address: int) -> int:
        """Where the device has what is at this address."""
        return address - self.address + self.place

    def page_below(self, address: int) -> int:
        """The nearest boundary between pages at or below an address."""
        return address - (address - self.address) % self.page

    def page_above(self, address: int) -> int:
        """The nearest boundary at or above it."""
        return address + (self.address - address) % self.page
