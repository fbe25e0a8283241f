"""The tensors of the host that operators of the device read."""

from __future__ import annotations

import weakref
from typing import Final

import torch

from .free_memory import SMALL, free_memory

#: Tensors of the host up to this size are copied when they are read; a larger one is kept.
_COPIED: Final = 1 << 16


class HostTensor:
    """A tensor of the host, as it was when an operator read it."""

    __slots__ = ("__weakref__", "_kept", "_origin", "_version", "shape", "tensor")

    def __init__(
        self, tensor: torch.Tensor, kept: weakref.WeakSet[HostTensor] | None = None
    ) -> None:
        # A tensor of its own: the move of a module gives the program's tensor another storage.
        self.tensor = tensor.detach()
        self.shape = tensor.shape
        self._origin: torch.Tensor | None = tensor
        self._version = tensor._version
        self._kept = kept
        if kept is not None:
            kept.add(self)

    def let_go(self) -> None:
        """Lets the program's tensor go if it is on the device now, as after ``module.to``.

        Its storage there would be kept alive by the note of the move, which the storage keeps.
        """
        if self._origin is not None and not self._origin.is_cpu:
            self._origin = None

    def copy(self, whole: torch.Tensor) -> None:
        """Keeps the contents in a copy of the whole storage, uint8, as the program writes them."""
        if not self.has_changed:
            at = self.tensor.storage_offset(), self.tensor.shape, self.tensor.stride()
            empty = torch.empty(0, dtype=self.tensor.dtype, device="cpu")
            self.tensor = empty.set_(whole.untyped_storage(), *at)
            self._origin = self._kept = None

    @property
    def has_changed(self) -> bool:
        """Returns True if the program may have written to the contents since.

        Nobody sees the writes through an array, which makes the storage one that cannot grow.
        """
        self.let_go()
        origin = self._origin
        return origin is not None and not (
            origin._version == self._version and (self._kept is None or is_resizable(origin))
        )


class HostTensors:
    """Takes tensors of the host for notes."""

    def __init__(self) -> None:
        self._last: HostTensor | None = None
        self.kept = weakref.WeakValueDictionary[int, weakref.WeakSet[HostTensor]]()
        """The tensors that notes read of storages that are not copied, by address."""
        self._unchecked = 0

    def noted(self, tensor: torch.Tensor) -> HostTensor:
        """Returns the tensor for a note: a copy if it is small, or cannot count its versions."""
        if tensor.nbytes <= _COPIED or not is_resizable(tensor) or tensor.is_inference():
            return HostTensor(copied(tensor))
        address = tensor.untyped_storage().data_ptr()
        kept = self.kept.get(address)
        if kept is None:
            self.kept[address] = kept = weakref.WeakSet()
        self._last = HostTensor(tensor, kept)
        return self._last

    def about_to_write(self, tensor: torch.Tensor) -> None:
        """Copies what notes keep of the storage of a tensor that the program writes."""
        if tensor.layout is not torch.strided:
            return
        kept = self.kept.get(tensor.untyped_storage().data_ptr())
        if kept is None or not (tensors := [*kept]):
            return
        whole = torch.empty(0, dtype=torch.uint8, device="cpu").set_(tensor.untyped_storage())
        if self._has_room(whole.nbytes):
            whole = copied(whole)
            for one in tensors:
                one.copy(whole)

    def _has_room(self, nbytes: int) -> bool:
        """Returns False if the host has no memory for a copy: its contents are unknown then."""
        self._unchecked += nbytes
        if self._unchecked < SMALL:
            return True
        self._unchecked = 0
        free = free_memory()
        return free is None or 2 * nbytes <= free

    def let_go(self) -> None:
        """Lets the last tensor go if the program has moved it: a module does so at once."""
        if self._last is not None:
            self._last.let_go()
            self._last = None


def is_resizable(tensor: torch.Tensor) -> bool:
    """Returns False for memory that an array shares, for one."""
    return tensor.untyped_storage().resizable()


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy that counts its versions, which a tensor of inference mode does not."""
    with torch.inference_mode(False):
        return tensor.detach().clone()
