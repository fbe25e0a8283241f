"""A storage of the simulated device, from the operator that makes it until it is freed."""

from __future__ import annotations

import weakref
from typing import Any

from .allocation_lines import Role
from .fake_tensor import SimulatedTensor
from .simulated_device import DeviceBlock


class FollowedStorage(Role):
    """A storage on the device."""

    __slots__ = ("block", "nbytes", "outside", "watch")

    def __init__(self, nbytes: int) -> None:
        super().__init__()
        self.nbytes = nbytes
        self.block: DeviceBlock | None = None
        self.watch: weakref.ref[Any] | None = None
        self.outside = False
        """True if a program made it outside windows, so that a restart does not forget it."""


def on_device(value: Any) -> list[Any]:
    """Returns the tensors in a value that are on the device."""
    kind = type(value)
    if kind is SimulatedTensor:
        return [value] if value.__dict__["_fake_device"].type == "cuda" else []
    if issubclass(kind, (tuple, list)):
        return [tensor for item in value for tensor in on_device(item)]
    return []
