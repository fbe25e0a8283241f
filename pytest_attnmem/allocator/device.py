"""The device below the allocator: how much memory it has, and where."""

from __future__ import annotations

from typing import Final

#: Of memory and of addresses, on every device since Kepler.
GRANULE: Final = 2 << 20


class DeviceMemory:
    """A device's memory, by cudaMalloc, or as pages and addresses apart.

    No address is used twice, so that their order is the order in which segments were made. That
    is what PyTorch 2.13 prefers one block to another of the same size by; until then it was the
    address, which real devices do use again.
    """

    def __init__(self, capacity: int, taken: int) -> None:
        self.capacity = capacity
        self.free = capacity - taken
        self._end = GRANULE

    def malloc(self, nbytes: int) -> int | None:
        """The address of that many bytes; ``None`` where there are not as many (cudaMalloc)."""
        nbytes = _whole(nbytes)
        return self.reserve(nbytes) if self.create(nbytes) else None

    def release(self, nbytes: int) -> None:
        """Undo a ``malloc`` (cudaFree)."""
        self.destroy(_whole(nbytes))

    def reserve(self, nbytes: int) -> int:
        """The address of as much room, without memory in it (cuMemAddressReserve)."""
        address = self._end
        self._end += _whole(nbytes)
        return address

    def create(self, nbytes: int) -> bool:
        """Take that many bytes of pages, if there are as many (cuMemCreate)."""
        if nbytes > self.free:
            return False
        self.free -= nbytes
        return True

    def destroy(self, nbytes: int) -> None:
        """Give pages back (cuMemRelease)."""
        self.free += nbytes


def _whole(nbytes: int) -> int:
    return -(-nbytes // GRANULE) * GRANULE
