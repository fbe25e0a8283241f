"""Segments that cudaMalloc gives: taken whole, and given back whole."""

from __future__ import annotations

from .blocks import Block, Pool
from .device import DeviceMemory
from .settings import MIN_BLOCK, SMALL_SIZE, AllocatorSettings
from .statistics import Ledger


class Rejected(Exception):
    """The device is not even asked, nor is the cache emptied."""


class Segments:
    """Where blocks come from by default."""

    #: Whether what is free in a segment partly in use counts as ``inactive_split``.
    counts_splits = True

    def __init__(self, settings: AllocatorSettings, device: DeviceMemory, ledger: Ledger) -> None:
        self._settings = settings
        self._device = device
        self._ledger = ledger
        fraction = settings.per_process_memory_fraction
        self.allowed = int(fraction * device.capacity) if fraction < 1 else None
        self._ages = self.allowed is not None and settings.garbage_collection_threshold > 0

    def find(self, pool: Pool, stream: int, size: int) -> Block | None:
        """The best fit among the free blocks, taken out of them (``get_free_block``)."""
        if self._ages:
            pool.searches += 1
        free = pool.free.get(stream)
        if free is None:
            return None
        index = free.first_from(size)
        if index == len(free):
            return None
        limit = self._settings.max_split_size
        if limit is not None and self._too_large(free[index], size, limit):
            return None
        return free.pop(index)

    def _too_large(self, block: Block, size: int, limit: int) -> bool:
        if size < limit:  # it would have to be split
            return block.size >= limit
        return block.size >= size + self._settings.max_non_split_rounding

    def should_split(self, block: Block, size: int) -> bool:
        """Whether what *size* bytes leave of a block is worth a block of its own."""
        left = block.size - size
        if block.pool.small:
            return left >= MIN_BLOCK
        limit = self._settings.max_split_size
        return left > SMALL_SIZE and (limit is None or size < limit)

    def obtain(self, pool: Pool, stream: int, size: int) -> Block | None:
        """A block of at least *size* bytes from the device, if it has room (``alloc_block``)."""
        nbytes = self._settings.segment_size(size)
        if not self.admits(nbytes):
            return None
        address = self._device.malloc(nbytes)
        if address is None:
            return None
        self._ledger.reserved.rise(nbytes)
        self._ledger.segments.rise(1)
        self._ledger.device_allocs += 1
        return Block(address, nbytes, stream, pool)

    def admits(self, nbytes: int) -> bool:
        """Whether as much more is within the memory fraction.

        Raises:
            Rejected: it is not within the device, and that is not to be tried.
        """
        total = self._ledger.reserved.current + nbytes
        if self.allowed is not None:
            return total <= self.allowed
        if self._settings.throw_on_cudamalloc_oom and total > self._device.capacity:
            raise Rejected
        return True

    def release(self, pool: Pool) -> None:
        """Give every segment back that is free as a whole (``release_blocks``)."""
        for block in pool.blocks():
            if block.whole:
                self._release(block)

    def release_large(self, pool: Pool, stream: int, size: int) -> bool:
        """Give back blocks too large to be split, until there is room for one of *size* bytes.

        Whether there is (``release_available_cached_blocks``): one block that is large enough, or
        else the largest first.
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

    def collect(self, pool: Pool) -> None:
        """Give back what has been free for long (``garbage_collect_cached_blocks``).

        Whatever exceeds the threshold is wanted back; every round takes the free segments that
        are of average age or older, age being counted in searches of the pool.
        """
        if not self._ages or self.allowed is None:
            return
        threshold = int(self._settings.garbage_collection_threshold * self.allowed)
        wanted = self._ledger.reserved.current - threshold
        whole = [block for block in pool.blocks() if block.whole]
        while wanted > 0 and whole:
            ages = [pool.searches - block.born for block in whole]
            average = sum(ages) / len(ages)
            for block, age in zip(whole, ages, strict=True):
                if age >= average:
                    wanted -= block.size
                    self._release(block)
            whole = [block for block, age in zip(whole, ages, strict=True) if age < average]

    def _release(self, block: Block) -> None:
        block.pool.discard(block)
        self._device.release(block.size)
        self._ledger.reserved.fall(block.size)
        self._ledger.segments.fall(1)
        self._ledger.device_frees += 1
