"""What the allocator counts, under the names of ``torch.cuda.memory_stats``."""

from __future__ import annotations

from typing import NamedTuple


class Level(NamedTuple):
    """An amount now, and the largest since the start or the last ``reset_peak``."""

    current: int
    peak: int


class Statistics(NamedTuple):
    """One look at an allocator. A level of bytes is what PyTorch calls ``NAME_bytes.all``."""

    requested: Level  # what callers asked for, before rounding
    allocated: Level  # the blocks that they hold
    active: Level  # these, and blocks that are freed but that another stream may still use
    reserved: Level  # taken from the device: segments, or mapped pages
    inactive_split: Level  # free, in segments that are partly in use; never in expandable ones
    segments: Level  # how many, expandable ones apart
    alloc_retries: int  # the device had no room, so the cache was emptied and it was tried again
    ooms: int  # and that did not help
    oom_rejections: int  # refused under ``throw_on_cudamalloc_oom``, with no such attempt
    device_allocs: int  # cudaMalloc, or pages mapped in one go
    device_frees: int  # cudaFree, or pages unmapped in one go


class Gauge:
    """A level that moves."""

    __slots__ = ("current", "peak")

    def __init__(self) -> None:
        self.current = 0
        self.peak = 0

    def rise(self, amount: int) -> None:
        """Add to it, and to its peak where it is the highest yet."""
        self.current += amount
        if self.current > self.peak:
            self.peak = self.current

    def fall(self, amount: int) -> None:
        """Take from it."""
        self.current -= amount

    def reset_peak(self) -> None:
        """The peak becomes what there is now."""
        self.peak = self.current

    def read(self) -> Level:
        """As it is now."""
        return Level(self.current, self.peak)


class Ledger:
    """The statistics while they are being made."""

    __slots__ = (
        *("requested", "allocated", "active", "reserved", "inactive_split", "segments"),
        *("alloc_retries", "ooms", "oom_rejections", "device_allocs", "device_frees"),
    )

    def __init__(self) -> None:
        self.requested = Gauge()
        self.allocated = Gauge()
        self.active = Gauge()
        self.reserved = Gauge()
        self.inactive_split = Gauge()
        self.segments = Gauge()
        self.alloc_retries = 0
        self.ooms = 0
        self.oom_rejections = 0
        self.device_allocs = 0
        self.device_frees = 0

    def levels(self) -> tuple[Gauge, ...]:
        """Everything that has a peak, in the order of ``Statistics``."""
        return (
            *(self.requested, self.allocated, self.active),
            *(self.reserved, self.inactive_split, self.segments),
        )

    def read(self) -> Statistics:
        """As they are now."""
        return Statistics(
            self.requested.read(),
            self.allocated.read(),
            self.active.read(),
            self.reserved.read(),
            self.inactive_split.read(),
            self.segments.read(),
            self.alloc_retries,
            self.ooms,
            self.oom_rejections,
            self.device_allocs,
            self.device_frees,
        )
