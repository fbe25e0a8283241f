"""The memory in which storages are allocated."""

from __future__ import annotations

from typing import Protocol

from ...profiles import DeviceProfile
from ...torch_releases import Version
from .simulated_device import DescribeHeld, DescribeWorkspace, DeviceBlock


class Memory(Protocol):
    """The memory in which storages are allocated; see ``simulated_device.Device``."""

    profile: DeviceProfile
    version: Version

    def allocate(self, nbytes: int, describe: DescribeHeld) -> DeviceBlock | None:
        """Allocates memory."""

    def add_older(self, nbytes: int) -> DeviceBlock | None:
        """Allocates memory for a tensor from before the window, whose free lowers the level."""

    def add_input(self, nbytes: int) -> DeviceBlock | None:
        """Allocates memory for an input: no window counts its allocation, or its free."""

    def free(self, block: DeviceBlock) -> None:
        """Frees a block."""

    def record_stream(self, block: DeviceBlock, stream: int) -> None:
        """Keeps a block from reuse until another stream is done with it."""

    def use_workspace(self, library: str, thread: str, describe: DescribeWorkspace) -> str | None:
        """Gives a workspace to a thread's handle of a library for one call."""
