"""Methods of ``torch.UntypedStorage`` that a build without CUDA refuses for the device."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from .storages import DeviceStorage

if TYPE_CHECKING:
    from .operators import Operators

_storage: Any = torch.UntypedStorage
_base: Any = torch._C.StorageBase
_resized = "its storage got another size without an operator"


def storage_methods(operators: Operators) -> dict[tuple[Any, str], Any]:
    """Returns the methods by owner and name."""
    maker = operators.maker

    def stored(storage: Any) -> DeviceStorage | None:
        found = maker.stored_at(storage.data_ptr()) if storage.device == maker.device else None
        return found if isinstance(found, DeviceStorage) else None

    def resize_(storage: Any, size: int) -> Any:
        found = stored(storage)
        if found is None:
            return _resize(storage, size)
        if size != found.nbytes:
            running = operators.current
            running.resize("resize_", found, size)
            whole = torch.empty(0, dtype=torch.uint8, device=maker.device).set_(storage)
            running.tape.lose(whole, _resized)
        return storage

    def nbytes(storage: Any) -> int:
        found = stored(storage)
        return _nbytes(storage) if found is None else found.nbytes

    _resize: Callable[[Any, int], Any] = _storage.resize_
    _nbytes: Callable[[Any], int] = _storage.nbytes
    return {
        (_storage, "__new__"): _new_on(maker.device),
        (_storage, "resize_"): resize_,
        **dict.fromkeys(((_storage, "nbytes"), (_storage, "size")), nbytes),
    }


def _new_on(own: torch.device) -> Any:
    """Returns what makes a storage: of a number of bytes, or of a list of them."""

    def new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != own.type:
            return _base.__new__(cls, *args, device=device, **kwargs)
        if args and not isinstance(args[0], int):
            return torch.tensor(args[0], dtype=torch.uint8, device=device).untyped_storage()
        return torch.empty(*args[:1] or (0,), dtype=torch.uint8, device=device).untyped_storage()

    return staticmethod(new)
