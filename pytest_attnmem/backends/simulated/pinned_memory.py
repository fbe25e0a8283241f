"""Pinned memory of the host: it is noted, as only a build with CUDA can pin."""

from __future__ import annotations

import weakref
from typing import Any

import torch
from torch._C import _functorch


class PinnedMemory:
    """The storages of the host that a program asked to be pinned."""

    def __init__(self) -> None:
        self._storages = weakref.WeakValueDictionary[int, torch.UntypedStorage]()

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the methods of tensors, by owner and name."""

        def pin_memory(tensor: torch.Tensor, device: Any = None) -> torch.Tensor:
            if not tensor.is_cpu:
                kind = tensor.type()
                raise RuntimeError(f"cannot pin '{kind}' only dense CPU tensors can be pinned")
            if is_pinned(tensor):
                return tensor
            made = tensor.clone()
            storage = _storage_of(made)
            if storage.nbytes():
                self._storages[storage._cdata] = storage
            return made

        def is_pinned(tensor: torch.Tensor, device: Any = None) -> bool:
            return tensor.is_cpu and _storage_of(tensor)._cdata in self._storages

        return {
            (torch.Tensor, "pin_memory"): pin_memory,
            (torch.Tensor, "is_pinned"): is_pinned,
        }


def _storage_of(tensor: torch.Tensor) -> torch.UntypedStorage:
    """Returns the storage of a tensor, or of the one that transforms have wrapped."""
    while _functorch.is_functorch_wrapped_tensor(tensor):
        tensor = _functorch.get_unwrapped(tensor)
    return tensor.untyped_storage()
