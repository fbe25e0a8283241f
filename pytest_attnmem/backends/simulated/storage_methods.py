"""Methods of storages that make or read memory; C++ code sees simulated memory on ``meta``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .fake_tensor import CPU, CUDA, IMPLICIT_CUDA
from .program_errors import at

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode
    from .memory_addresses import MemoryAddresses
    from .storage_lifetimes import StorageLifetimes
    from .values import Values

_BASE: Any = torch._C.StorageBase
_DEVICE = _BASE.device


def _new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
    """Makes a storage: of a number of bytes, or of a list of them."""
    if device is None or torch.device(device).type != "cuda":
        return _BASE.__new__(cls, *args, device=device, **kwargs)
    if args and not isinstance(args[0], int):
        return torch.tensor(args[0], dtype=torch.uint8, device=device).untyped_storage()
    return torch.empty(*args[:1] or (0,), dtype=torch.uint8, device=device).untyped_storage()


class StorageMethods:
    """The methods of the storages of one simulation."""

    def __init__(
        self,
        fake_mode: SimulatedFakeMode,
        lifetimes: StorageLifetimes,
        values: Values,
        addresses: MemoryAddresses,
    ) -> None:
        self._fake_mode = fake_mode
        self._lifetimes = lifetimes
        self._values = values
        self._addresses = addresses

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the patches, by owner and name."""
        storage = torch.UntypedStorage
        return {
            (storage, "device"): property(self._device),
            (storage, "data_ptr"): self._data_ptr(storage.data_ptr),
            (storage, "cpu"): self._of_bytes(torch.Tensor.cpu, storage.cpu),
            (storage, "clone"): self._of_bytes(torch.Tensor.clone, storage.clone),
            (storage, "__new__"): staticmethod(_new),
            (storage, "__getitem__"): self._get(storage.__getitem__),
        }

    def _device(self, storage: Any) -> torch.device:
        device: torch.device = _DEVICE.__get__(storage)
        if device.type != "meta":
            return device
        if self._lifetimes.block_of(storage) is not None:
            return CUDA if self._fake_mode.device_named else IMPLICIT_CUDA
        return device if self._values.storages.slot_of(storage) is None else CPU

    def _data_ptr(self, original: Callable[[Any], int]) -> Callable[[Any], int]:
        def data_ptr(storage: Any) -> int:
            simulated = _DEVICE.__get__(storage).type == "meta"
            found = self._addresses.of_storage(storage) if simulated else None
            return original(storage) if found is None else found

        return data_ptr

    def _get(self, original: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
        def get(storage: Any, place: Any) -> Any:
            if isinstance(place, slice) and _DEVICE.__get__(storage).type == "meta":
                raise self._fake_mode.observer.refused(
                    f"a slice of a storage{at()} cannot be simulated; slice the tensor"
                )
            return original(storage, place)

        return get

    def _of_bytes(
        self, run: Callable[[Any], Any], original: Callable[[Any], Any]
    ) -> Callable[[Any], Any]:
        """Returns a method of storages that runs a method of tensors on the bytes."""

        def method(storage: Any) -> Any:
            device = self._device(storage)
            if _DEVICE.__get__(storage) == device:
                return original(storage)
            with self._fake_mode:
                tensor = torch.empty(0, dtype=torch.uint8, device=device).set_(storage)
                return run(tensor).untyped_storage()

        return method
