"""Pinned memory of the host: it is noted, as only a build with CUDA can pin."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import wraps
from typing import Any, Final

import torch

from .fake_tensor import CPU, IMPLICIT_CUDA, SimulatedTensor
from .moves import NAMES
from .transforms import unwrapped

_TO = torch.Tensor.to
#: PyTorch's factories that may be asked for pinned memory, by their owners.
_FACTORIES: Final = (
    *((torch, name) for name in ("empty", "zeros", "ones", "full", "arange", "eye", "tensor")),
    *((torch, name) for name in ("rand", "randn", "randint", "empty_strided", "linspace")),
    *((torch, f"{name}_like") for name in ("empty", "zeros", "ones", "full", "rand", "randn")),
    *((torch.Tensor, f"new_{name}") for name in ("empty", "zeros", "ones", "full")),
)


class PinnedMemory:
    """The storages of the host that a program asked to be pinned."""

    def __init__(self) -> None:
        self._storages = weakref.WeakValueDictionary[int, torch.UntypedStorage]()

    def pin(self, tensor: Any, *_: Any, **__: Any) -> Any:
        """Runs ``Tensor.pin_memory``, whose copy has a history.

        Raises:
            RuntimeError: the tensor is on the device.
        """
        if type(tensor) is SimulatedTensor and tensor.fake_device is IMPLICIT_CUDA:
            return self.noted(_TO(tensor, CPU))
        if tensor.is_cuda:
            kind = f"torch.cuda.{NAMES[tensor.dtype]}Tensor"
            raise RuntimeError(f"cannot pin '{kind}' only dense CPU tensors can be pinned")
        return tensor if self.is_pinned(tensor) else self.noted(tensor.clone())

    def is_pinned(self, tensor: Any, *_: Any, **__: Any) -> bool:
        """Runs ``Tensor.is_pinned``."""
        return self.holds(unwrapped(tensor).untyped_storage())

    def holds(self, storage: torch.UntypedStorage) -> bool:
        """Returns True for a pinned storage."""
        return storage._cdata in self._storages

    def noted(self, tensor: Any) -> Any:
        """Returns the tensor, whose memory is pinned.

        Raises:
            RuntimeError: the tensor is on the device.
        """
        inner = unwrapped(tensor)
        if inner.is_cuda:
            raise RuntimeError("Only dense CPU tensors can be pinned")
        self.note(inner.untyped_storage())
        return tensor

    def note(self, storage: torch.UntypedStorage) -> None:
        """Notes that a storage is pinned, if it has memory."""
        if storage.nbytes():
            self._storages[storage._cdata] = storage

    def outside_windows(self, patches: dict[tuple[Any, str], Any]) -> dict[tuple[Any, str], Any]:
        """Returns the patches, by owner and name, around those that are there already."""
        return {
            **patches,
            (torch.Tensor, "pin_memory"): self._method(self.pin),
            (torch.Tensor, "is_pinned"): self._method(self.is_pinned),
            **{
                (owner, name): self._factory(patches.get((owner, name), getattr(owner, name)))
                for owner, name in _FACTORIES
            },
        }

    def _method(self, run: Callable[..., Any]) -> Callable[..., Any]:
        return lambda tensor, *args, **kwargs: run(tensor, *args, **kwargs)

    def _factory(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(original)
        def make(*args: Any, pin_memory: bool = False, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            return self.noted(made) if pin_memory else made

        return make
