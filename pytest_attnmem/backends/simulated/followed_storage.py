"""A storage of the simulated device, from the operator that makes it until it is freed."""

from __future__ import annotations

import weakref
from typing import Any

from ...measurement.held import SAVED, Held
from ..tracing.node_modules import in_backward
from .allocation_lines import Line, tensor_held
from .fake_tensor import SimulatedTensor
from .simulated_device import DeviceBlock


class FollowedStorage(weakref.ref[Any]):
    """A storage on the device; the callback hears when it is freed."""

    __slots__ = (
        *("_forward", "block", "dtype", "key", "line", "nbytes", "nbytes_made", "op", "outside"),
        *("role", "shape", "unnamed"),
    )

    def describe(
        self, key: int, nbytes: int, shape: tuple[int, ...], dtype: Any, outside: bool
    ) -> None:
        """Sets what is known of a new storage, which ``key`` identifies while it lives."""
        self.key = key
        self.nbytes = nbytes
        self.shape = shape
        """The sizes and the dtype of the tensor that it was made for."""
        self.dtype = dtype
        self.nbytes_made = nbytes
        """The bytes of its first allocation, and by which operator and where it was made."""
        self.op: Any = None
        self.line: Line = ()
        self.block: DeviceBlock | None = None
        self.role = ""
        """Its role, which may be learned after its allocation."""
        self._forward = not in_backward()
        self.outside = outside
        """True if a program made it outside windows, so that a restart does not forget it."""
        self.unnamed = False
        """True if it is on the device only because a program named none."""

    def held(self) -> Held:
        """Returns the description of its first allocation."""
        return tensor_held(self.nbytes_made, self.shape, self.dtype, self.op, self.line, self)

    def end(self) -> None:
        """Learns that a backward pass frees a storage that it did not make: it was saved for it."""
        if self._forward and not self.role and in_backward():
            self.role = SAVED


def on_device(value: Any) -> list[Any]:
    """Returns the tensors in a value that are on the device."""
    kind = type(value)
    if kind is SimulatedTensor:
        return [value] if value.__dict__["_fake_device"].type == "cuda" else []
    if issubclass(kind, (tuple, list)):
        return [tensor for item in value for tensor in on_device(item)]
    return []
