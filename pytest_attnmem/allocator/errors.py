"""The errors of the modelled allocator."""

from __future__ import annotations

from ..errors import AttnMemError
from ..units import format_distinct


class AllocatorSettingsError(AttnMemError, ValueError):
    """Allocator settings that PyTorch would refuse, or that the model cannot follow."""


class AddressError(AttnMemError, ValueError):
    """An address that the allocator did not return, or that is already free."""


class AllocationError(AttnMemError):
    """An allocation that does not fit even after the cache was released. All numbers are bytes."""

    def __init__(
        self, asked: int, segment: int, capacity: int, free: int, allocated: int, reserved: int
    ) -> None:
        super().__init__(asked, segment, capacity, free, allocated, reserved)
        self.asked = asked  # bytes that the caller asked for, before rounding
        self.segment = segment  # the segment that the allocator needed for it
        self.capacity = capacity  # memory of the device, or the part that a memory fraction allows
        self.free = free  # free part of the capacity
        self.allocated = allocated  # blocks in use
        self.reserved = reserved  # segments

    def __str__(self) -> str:
        asked, free, capacity, allocated, pieces = format_distinct(
            self.asked, self.free, self.capacity, self.allocated, self.reserved - self.allocated
        )
        return (
            f"out of memory: {asked} asked for, {free} free of {capacity}; "
            f"{allocated} allocated, and {pieces} reserved besides"
        )
