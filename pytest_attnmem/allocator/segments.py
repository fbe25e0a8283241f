"""The memory of the device, and segments of cudaMalloc, allocated and released as a whole."""

from __future__ import annotations

from typing import Final

from .blocks import Block, Pool
from .configuration import MIN_BLOCK, SMALL_SIZE, AllocatorSettings
from .statistics import DeviceStats

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


class Rejected(Exception):
    """A request that is refused without asking the device and without emptying the cache."""


class Segments:
    """The default source of blocks."""

    #: True if free blocks of a segment that is partly in use count as ``inactive_split``.
    counts_splits = True

    def __init__(
        self, settings: AllocatorSettings, device: DeviceMemory, stats: DeviceStats
    ) -> None:
        self._settings = settings
        self._device = device
        self._stats = stats
        fraction = settings.per_process_memory_fraction
        self.allowed = int(fraction * device.capacity) if fraction < 1 else None
        self._ages = self.allowed is not None and settings.garbage_collection_threshold > 0

    def find(self, pool: Pool, stream: int, size: int) -> Block | None:
        """Removes and returns the free block that fits best (``get_free_block``)."""
        if self._ages:
            pool.searches += 1
        free = pool.free.get(stream)
        if free is None:
            return None
        limit = self._settings.max_split_size
        if limit is None:
            return free.take(size)
        index = free.first_from(size)
        if index == len(free) or self._too_large(free[index], size, limit):
            return None
        return free.pop(index)

    def _too_large(self, block: Block, size: int, limit: int) -> bool:
        if size < limit:  # it would have to be split
            return block.size >= limit
        return block.size >= size + self._settings.max_non_split_rounding

    def should_split(self, block: Block, size: int) -> bool:
        """Returns True if the rest of a block, beyond *size* bytes, becomes a block of its own."""
        left = block.size - size
        if block.pool.small:
            return left >= MIN_BLOCK
        limit = self._settings.max_split_size
        return left > SMALL_SIZE and (limit is None or size < limit)

    def obtain(self, pool: Pool, stream: int, size: int) -> Block | None:
        """Returns a new segment as a block, or None if it does not fit (``alloc_block``)."""
        nbytes = self._settings.segment_size(size)
        if not self.admits(nbytes):
            return None
        address = self._device.malloc(nbytes)
        if address is None:
            return None
        self._stats.reserved.increase(nbytes)
        self._stats.segments.increase(1)
        self._stats.device_allocs += 1
        return Block(address, nbytes, stream, pool)

    def admits(self, nbytes: int) -> bool:
        """Returns True if that many more bytes are within the memory fraction.

        Raises:
            Rejected: they exceed the device, and ``throw_on_cudamalloc_oom`` is set.
        """
        total = self._stats.reserved.current + nbytes
        if self.allowed is not None:
            return total <= self.allowed
        if self._settings.throw_on_cudamalloc_oom and total > self._device.capacity:
            raise Rejected
        return True

    def release(self, pool: Pool) -> None:
        """Releases every segment that is free as a whole (``release_blocks``)."""
        for block in pool.blocks():
            if block.whole:
                self._release(block)

    def release_large(self, pool: Pool, stream: int, size: int) -> bool:
        """Releases free blocks that are too large to be split; returns True if *size* bytes fit.

        It releases one block that is large enough or, if there is none, the largest ones first
        (``release_available_cached_blocks``).
        """
        limit = self._settings.max_split_size
        free = pool.free.get(stream)
        if limit is None or not free:
            return False
        index = free.first_from(size)
        if index < len(free):
            self._release(free[index])
            return True
        released = 0
        while free and released < size and (largest := free[len(free) - 1]).size >= limit:
            released += largest.size
            self._release(largest)
        return released >= size

    def collect_garbage(self, pool: Pool) -> None:
        """Releases segments that have been free for long (``garbage_collect_cached_blocks``).

        It releases until the reserved bytes are at most the threshold. Every round releases the
        free segments of average age or older; the age is the number of searches of the pool.
        """
        if not self._ages or self.allowed is None:
            return
        threshold = int(self._settings.garbage_collection_threshold * self.allowed)
        wanted = self._stats.reserved.current - threshold
        whole = [block for block in pool.blocks() if block.whole]
        while wanted > 0 and whole:
            ages = [pool.searches - block.gc_count_base for block in whole]
            average = sum(ages) / len(ages)
            for block, age in zip(whole, ages, strict=True):
                if age >= average:
                    wanted -= block.size
                    self._release(block)
            whole = [block for block, age in zip(whole, ages, strict=True) if age < average]

    def _release(self, block: Block) -> None:
        block.pool.remove(block)
        self._device.release(block.size)
        self._stats.reserved.increase(-block.size)
        self._stats.segments.increase(-1)
        self._stats.device_frees += 1
