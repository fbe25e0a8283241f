"""The tensors of a call, and where each of them is: all that PyTorch's checks of devices read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch


class Placed(NamedTuple):
    """A tensor argument, or a tensor in a list."""

    name: str
    """The name of the argument."""
    is_output: bool
    """True if the operator writes into it."""
    keyword: bool
    """True for an argument by keyword alone, outputs included."""
    on_host: bool
    shape: tuple[int, ...]
    floating: bool
    """True if the dtype is of floating point."""
    place: int
    """The place in the list; -1 for a tensor that is the argument itself."""

    @property
    def device(self) -> str:
        """Returns the device as errors name it."""
        return "cpu" if self.on_host else "cuda:0"

    @property
    def kind(self) -> str:
        """Returns how a recording tells places: the argument, and if the tensor has dimensions."""
        return f"{self.name} {'full' if self.shape else 'single'}"


class Signature:
    """The schema of an operator, as far as it matters here."""

    def __init__(self, func: Any) -> None:
        self._arguments = [
            (argument.name, argument.is_write, argument.kwarg_only)
            for argument in func._schema.arguments
        ]
        self._by_name = {argument[0]: argument for argument in self._arguments}

    def placed(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Placed, ...]:
        """Returns the tensors of a call in the order of the schema."""
        found: list[Placed] = []
        given = dict(kwargs)
        for value, (name, _, _) in zip(args, self._arguments, strict=False):
            given[name] = value
        for name, is_output, keyword in self._arguments:
            value = given.get(name)
            several = isinstance(value, (list, tuple))
            items: Any = value if several else (value,)
            for index, item in enumerate(items):
                if isinstance(item, torch.Tensor):
                    facts = _on_host(item), tuple(item.shape), item.is_floating_point()
                    place = index if several else -1
                    found.append(Placed(name, is_output, keyword, *facts, place))
        return tuple(found)


def _on_host(tensor: Any) -> bool:
    device = tensor.__dict__.get("_fake_device") or tensor.device
    return bool(device.type == "cpu")


def is_mixed(tensors: tuple[Placed, ...]) -> bool:
    """Returns True if tensors of the host stand beside tensors of the device."""
    on_host = sum(tensor.on_host for tensor in tensors)
    return 0 < on_host < len(tensors)
