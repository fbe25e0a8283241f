"""The storages of the null device, by address, for as long as PyTorch's allocator keeps them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from ...nulldevice.contents import Frees
from ...values.notes import Buffer, Random, Slot

_NO_OPERATOR = (
    "no operator of PyTorch wrote it: an extension or compiled code did, most likely; if that is of"
    " TorchScript, set PYTORCH_JIT=0, which runs scripts as Python"
)


class DeviceStorages:
    """The slots of storages; the allocator reports each storage that it frees.

    A storage is known by its address alone. A Python object for it would count as an owner, and
    autograd adds in place only to gradients that nobody else owns.
    """

    def __init__(self) -> None:
        self._slots: dict[int, Slot] = {}
        self._frees = Frees()

    def follow(self) -> None:
        """Makes PyTorch report each free, for the rest of the process.

        Raises:
            BackendUnavailable: this torch does not report them.
        """
        self._frees.follow()

    def drop_freed(self) -> None:
        """Forgets the storages that were freed; called before each look at an address."""
        for address in self._frees.drain():
            self._slots.pop(address, None)

    def find(self, tensor: torch.Tensor) -> Slot | None:
        """Returns the slot of a tensor's storage; None if the tensor is on the host."""
        if not tensor.is_cuda:
            return None
        if tensor.numel():
            address = tensor.data_ptr() - int(tensor.storage_offset()) * tensor.element_size()
        else:  # an operator may resize it, within memory that it shares with others
            address = tensor.untyped_storage().data_ptr()
        if not address:
            return Slot(Buffer(0))
        slot = self._slots.get(address)
        if slot is None:
            slot = self._slots[address] = Slot(Buffer(0, _NO_OPERATOR))
        return slot

    def has(self, tensor: torch.Tensor) -> bool:
        """Returns True if an operator has used the tensor's storage before."""
        return tensor.untyped_storage().data_ptr() in self._slots

    def slot_at(self, address: int) -> tuple[Slot, int] | None:
        """Returns the slot of the storage that has the address, and the place in the storage."""
        for start, slot in self._slots.items():
            if start <= address < start + max(slot.buffer.nbytes, 1):
                return slot, address - start
        return None

    def all(self) -> Iterator[Slot]:
        """Yields each slot."""
        yield from [*self._slots.values()]

    def random(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Random:
        """Returns the state of a generator, or of the current device's default generator."""
        given = (arg for arg in args if isinstance(arg, torch.Generator))  # of poisson, binomial
        generator = kwargs.get("generator") or next(given, None)
        if generator is None or generator.device.type != "cuda":
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
        return Random(generator.initial_seed(), generator.get_offset())
