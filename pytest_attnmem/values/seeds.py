"""The seeds that an operator of the device returns on the host, for its backward pass.

Efficient attention returns its seed and its offset as tensors of the host. The host's equivalent
has seeds of its own, so the backward pass must get those in the place of the device's.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from .notes import Buffer, Slot

if TYPE_CHECKING:
    import torch

#: Seeds that are remembered: more than the layers of a model.
_MOST = 4096


class Seeds:
    """The slots of seeds on the host, by address; autograd keeps the storage, not the object."""

    def __init__(self) -> None:
        self._slots: OrderedDict[int, tuple[int, Slot]] = OrderedDict()

    def output(self, tensor: torch.Tensor) -> Slot | None:
        """Returns a new slot for a seed that an operator returned; None for another tensor."""
        if _is_no_seed(tensor):
            return None
        slot = Slot(Buffer(0))
        self._slots[tensor.data_ptr()] = int(tensor), slot
        if len(self._slots) > _MOST:
            self._slots.popitem(last=False)
        return slot

    def find(self, tensor: torch.Tensor) -> Slot | None:
        """Returns the slot of a seed; None if the memory has had another value since."""
        if not self._slots or _is_no_seed(tensor):
            return None
        value, slot = self._slots.get(tensor.data_ptr(), (None, None))
        return slot if slot is not None and int(tensor) == value else None


def _is_no_seed(tensor: torch.Tensor) -> bool:
    return tensor.numel() != 1 or tensor.is_floating_point() or tensor.is_complex()
