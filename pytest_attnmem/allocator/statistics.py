"""The statistics of the allocator, with the names of ``torch.cuda.memory_stats``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class Level(NamedTuple):
    """An amount now, and the largest amount since the start or the last ``reset_peak``."""

    current: int
    peak: int


class Statistics(NamedTuple):
    """A snapshot of an allocator. PyTorch calls a level of bytes ``NAME_bytes.all``."""

    requested: Level  # the bytes that callers asked for, before rounding
    allocated: Level  # blocks in use
    active: Level  # blocks in use, and freed blocks that another stream may still use
    reserved: Level  # memory of the device: segments, or mapped pages
    inactive_split: Level  # free blocks of segments that are partly in use; expandable ones apart
    segments: Level  # the number of segments, expandable ones apart
    alloc_retries: int  # attempts after the device had no room and the cache was emptied
    ooms: int  # retries that failed
    oom_rejections: int  # requests refused under ``throw_on_cudamalloc_oom``, without a retry
    device_allocs: int  # calls of cudaMalloc, or mappings of pages
    device_frees: int  # calls of cudaFree, or unmappings of pages


class Stat:
    """A level that changes (``Stat`` of c10)."""

    __slots__ = ("current", "peak")

    def __init__(self) -> None:
        self.current = 0
        self.peak = 0

    def increase(self, amount: int) -> None:
        """Adds to the amount, and raises the peak if it is exceeded."""
        self.current += amount
        if self.current > self.peak:
            self.peak = self.current

    def reset_peak(self) -> None:
        """Sets the peak to the current amount."""
        self.peak = self.current

    def read(self) -> Level:
        """Returns the level now."""
        return Level(self.current, self.peak)


@dataclass(slots=True)
class DeviceStats:
    """The statistics of an allocator, which it updates (``DeviceStats`` of c10)."""

    requested: Stat = field(default_factory=Stat)
    allocated: Stat = field(default_factory=Stat)
    active: Stat = field(default_factory=Stat)
    reserved: Stat = field(default_factory=Stat)
    inactive_split: Stat = field(default_factory=Stat)
    segments: Stat = field(default_factory=Stat)
    alloc_retries: int = 0
    ooms: int = 0
    oom_rejections: int = 0
    device_allocs: int = 0
    device_frees: int = 0

    def took(self, requested: int, size: int) -> None:
        """Counts a block in use. It does what ``increase`` does, for it runs at each operator."""
        stat = self.requested
        stat.current = level = stat.current + requested
        if level > stat.peak:
            stat.peak = level
        for stat in (self.allocated, self.active):
            stat.current = level = stat.current + size
            if level > stat.peak:
                stat.peak = level

    def peaked(self) -> tuple[Stat, ...]:
        """Returns the statistics with a peak."""
        found = (getattr(self, name) for name in Statistics._fields)
        return tuple(one for one in found if isinstance(one, Stat))

    def read(self) -> Statistics:
        """Returns a snapshot."""
        found = (getattr(self, name) for name in Statistics._fields)
        return Statistics._make(one.read() if isinstance(one, Stat) else one for one in found)
