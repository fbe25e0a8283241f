"""The memory of the device below the allocator."""

from __future__ import annotations

from typing import Final

#: The granularity of memory and of addresses on every device since Kepler.
GRANULE: Final = 2 << 20


class DeviceMemory:
    """The memory of a device, allocated by cudaMalloc or as pages and addresses separately.

    No address is used twice, so the order of addresses is the order in which segments were made.
    PyTorch 2.13 uses that order to choose between blocks of the same size; older versions use the
    address, and real devices use addresses again.
    """

    def __init__(self, capacity: int, taken: int) -> None:
        self.capacity = capacity
        self.free = capacity - taken
        self._end = GRANULE

    def malloc(self, nbytes: int) -> int | None:
        """Returns the address of that many bytes, or ``None`` if they are not free (cudaMalloc)."""
        nbytes = _whole(nbytes)
        return self.reserve(nbytes) if self.create(nbytes) else None

    def release(self, nbytes: int) -> None:
        """Frees the bytes of a ``malloc`` (cudaFree)."""
        self.destroy(_whole(nbytes))

    def reserve(self, nbytes: int) -> int:
        """Returns a range of addresses without memory (cuMemAddressReserve)."""
        address = self._end
        self._end += _whole(nbytes)
        return address

    def create(self, nbytes: int) -> bool:
        """Allocates that many bytes of pages; returns False if they are not free (cuMemCreate)."""
        if nbytes > self.free:
            return False
        self.free -= nbytes
        return True

    def destroy(self, nbytes: int) -> None:
        """Frees pages (cuMemRelease)."""
        self.free += nbytes


def _whole(nbytes: int) -> int:
    return -(-nbytes // GRANULE) * GRANULE
