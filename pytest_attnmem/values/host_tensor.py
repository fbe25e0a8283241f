"""The tensors of the host that operators of the device read."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Final

import torch

if TYPE_CHECKING:
    from .notes import Buffer

#: Tensors of the host up to this size are copied when they are read; a larger one is kept.
_COPIED: Final = 1 << 16


class HostTensor:
    """A tensor of the host, as it was when an operator read it."""

    __slots__ = ("__weakref__", "_origin", "_version", "shape", "tensor")

    def __init__(self, tensor: torch.Tensor) -> None:
        # A tensor of its own: the move of a module gives the program's tensor another storage.
        self.tensor = tensor.detach()
        self.shape = tensor.shape
        self._origin: torch.Tensor | None = tensor
        self._version = tensor._version

    def let_go(self) -> None:
        """Lets the program's tensor go if it is on the device now, as after ``module.to``.

        Its storage there would be kept alive by the note of the move, which the storage keeps.
        """
        if self._origin is not None and not self._origin.is_cpu:
            self._origin = None

    @property
    def has_changed(self) -> bool:
        """Returns True if the program has written to the contents since."""
        self.let_go()
        return self._origin is not None and self._origin._version != self._version


class HostTensors:
    """Takes tensors of the host for notes."""

    def __init__(self) -> None:
        self._last: HostTensor | None = None

    def take(self, tensor: torch.Tensor) -> HostTensor:
        """Returns the tensor for a note: a copy if it is small, or cannot count its versions."""
        fixed = not tensor.untyped_storage().resizable()  # numpy's memory
        if tensor.nbytes <= _COPIED or fixed or tensor.is_inference():
            return HostTensor(copied(tensor))
        self._last = HostTensor(tensor)
        return self._last

    def copy(self, buffer: Buffer, tensor: torch.Tensor) -> HostTensor:
        """Returns a copy of contents that were given away, or the last one if it is equal.

        Each operator that reads a weight in the memory of a file would copy it else.
        """
        last = None if buffer.copy is None else buffer.copy()
        if last is None or not _is_equal(last.tensor, tensor):
            last = HostTensor(copied(tensor))
            buffer.copy = weakref.ref(last)
        return last

    def let_go(self) -> None:
        """Lets the last tensor go if the program has moved it: a module does so at once."""
        if self._last is not None:
            self._last.let_go()
            self._last = None


def copied(tensor: torch.Tensor) -> torch.Tensor:
    """Returns a copy that counts its versions, which a tensor of inference mode does not."""
    with torch.inference_mode(False):
        return tensor.detach().clone()


def _is_equal(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Returns True for tensors of the same layout and bytes; NaN equals NaN."""
    if one.dtype != other.dtype or one.shape != other.shape or one.stride() != other.stride():
        return False
    if not (one.is_contiguous() and one.is_conj() == other.is_conj()):
        return False
    flat = [tensor.detach().reshape(-1).view(torch.uint8) for tensor in (one, other)]
    return torch.equal(*flat)
