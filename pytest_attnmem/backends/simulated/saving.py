"""Simulated tensors in files: ``torch.save`` writes their values, and the device named for them."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from .fake_tensor import CPU, IMPLICIT_CUDA
from .program_attributes import attributes

#: The attribute of a storage that is written in the place of a storage of the device.
_LOCATION = "_attnmem_location"
_REDUCE_EX: Any = torch.Tensor.__reduce_ex__  # in windows, another function has its place


class Saving:
    """Makes the real tensors that are written in the place of simulated ones."""

    def __init__(self) -> None:
        self._written: dict[tuple[int, object], weakref.ref[torch.UntypedStorage]] = {}
        """The storages that a file in the making has, by storage and the last note that wrote."""

    def reduced(self, tensor: Any, values: torch.Tensor, writer: object, protocol: int) -> Any:
        """Returns what ``pickle`` writes of a tensor with those values, which a note wrote last.

        Tensors that share a storage share it in the file.
        """
        state = attributes(tensor)
        if getattr(tensor, "_is_param", False):
            hooks: OrderedDict[str, Any] = OrderedDict()  # the alias would be written with it
            facts = tensor.detach(), tensor.requires_grad, hooks
            if not state:
                return torch._utils._rebuild_parameter, facts
            return torch._utils._rebuild_parameter_with_state, (*facts, state)
        with torch._C.DisableTorchFunction(), no_dispatch():
            plain = torch.empty(0, dtype=values.dtype).set_(
                self._storage(tensor, values, writer),
                values.storage_offset(), values.shape, values.stride(),
            )  # fmt: skip
            plain = torch._conj(plain) if values.is_conj() else plain
            plain = torch._neg_view(plain) if values.is_neg() else plain
            vars(plain).update(state)
            return _REDUCE_EX(plain.requires_grad_(tensor.requires_grad), protocol)

    def _storage(self, tensor: Any, values: torch.Tensor, writer: object) -> torch.UntypedStorage:
        key = tensor.untyped_storage()._cdata, writer
        written = self._written.get(key, _nothing)()
        if written is None:
            written = values.untyped_storage()
            if not written.is_shared():  # else another process gets the memory itself
                written = torch.empty(0, dtype=torch.uint8).set_(written).clone().untyped_storage()
            setattr(written, _LOCATION, _location(tensor) or str(tensor.device))
            forget = self._written.pop
            self._written[key] = weakref.ref(written, lambda _: forget(key, None))
        return written


def _location(memory: Any) -> str:
    """Returns the host's name if the program did not name the device; empty if it did."""
    return str(CPU) if memory.device is IMPLICIT_CUDA else ""


def _nothing() -> None:
    """Returns None, as a reference to a storage that is gone."""


def patches() -> dict[tuple[Any, str], Any]:
    """Returns the patch, by owner and name, that writes the device of a simulated tensor."""
    original: Callable[[Any], str] = torch.serialization.location_tag

    def location_tag(storage: Any) -> str:
        return getattr(storage, _LOCATION, None) or _location(storage) or original(storage)

    return {(torch.serialization, "location_tag"): location_tag}
