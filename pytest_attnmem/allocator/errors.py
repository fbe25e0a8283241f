"""What can go wrong with the modelled allocator."""

from __future__ import annotations

from ..errors import AttnMemError
from ..units import format_distinct


class AllocatorSettingsError(AttnMemError, ValueError):
    """Allocator settings that PyTorch would refuse, or that the model cannot follow."""


class AddressError(AttnMemError, ValueError):
    """An address that the allocator did not return, or that is free already."""


class OutOfMemory(AttnMemError):
    """An allocation that does not fit, though everything cached went back to the device first.

    All in bytes.
    """

    def __init__(
        self, asked: int, segment: int, capacity: int, free: int, allocated: int, reserved: int
    ) -> None:
        super().__init__(asked, segment, capacity, free, allocated, reserved)
        self.asked = asked  # by the caller, before rounding
        self.segment = segment  # what the allocator then wanted of the device
        self.capacity = capacity  # of the device, or what a memory fraction allows of it
        self.free = free  # of that
        self.allocated = allocated  # blocks in use
        self.reserved = reserved  # segments; what is not allocated of them is in pieces

    def __str__(self) -> str:
        asked, free, capacity, allocated, pieces = format_distinct(
            self.asked, self.free, self.capacity, self.allocated, self.reserved - self.allocated
        )
        return (
            f"out of memory: {asked} asked for, {free} free of {capacity}; "
            f"{allocated} allocated, and {pieces} reserved besides"
        )
