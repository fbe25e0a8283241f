"""A storage of the simulated device, from the operator that makes it until it is freed."""

from __future__ import annotations

import weakref
from typing import Any

from .allocation_lines import AllocatedStorage
from .fake_tensor import SimulatedTensor


class FollowedStorage(weakref.ref[Any], AllocatedStorage):
    """A storage on the device; the callback hears when it is freed."""

    __slots__ = (
        *("_forward", "block", "dtype", "key", "line", "nbytes", "nbytes_made", "op", "outside"),
        *("role", "shape", "unnamed"),
    )

    def describe(
        self, key: int, nbytes: int, shape: tuple[int, ...], dtype: Any, outside: bool
    ) -> None:
        """Sets what is known of a new storage, which ``key`` identifies while it lives."""
        self.describe_new(nbytes, shape, dtype)
        self.key = key
        self.outside = outside
        """True if a program made it outside windows, so that a restart does not forget it."""
        self.unnamed = False
        """True if it is on the device only because a program named none."""


def on_device(value: Any) -> list[Any]:
    """Returns the tensors in a value that are on the device."""
    kind = type(value)
    if kind is SimulatedTensor:
        return [value] if value.__dict__["_fake_device"].type == "cuda" else []
    if issubclass(kind, (tuple, list)):
        return [tensor for item in value for tensor in on_device(item)]
    return []
