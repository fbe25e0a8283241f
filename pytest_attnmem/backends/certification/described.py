"""Makes the arguments of a recipe from their text."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch

from .recipes import Recipe

_TENSOR: Final = re.compile(r"(host |grad )?(\w+)\[([\d, ]*)\](?:\(([\d, ]*)\))?(?:@(\d+))?")
_DTYPE: Final = "torch."
Make = Callable[[torch.dtype, tuple[int, ...], tuple[int, ...], int], torch.Tensor]


def operator(name: str) -> Any:
    """Returns the operator ``aten.mm.default``.

    Raises:
        AttributeError: this torch lacks it.
    """
    namespace, packet, overload = name.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet), overload)


def arguments(recipe: Recipe, device: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Returns the arguments of a call on a device, with data if it reads data."""
    make = _maker(device, recipe.period)
    kwargs = {name: _built(value, make) for name, value in recipe.kwargs.items()}
    if "device" in kwargs:
        kwargs["device"] = torch.device(device)
    return tuple(_built(value, make) for value in recipe.args), kwargs


def new_storages(arguments: Any, returned: Any) -> tuple[torch.Tensor, ...]:
    """Returns the results with a new storage, in order, one for each storage."""
    seen = {_id_of(tensor) for tensor in _tensors(arguments)}
    found = []
    for tensor in _tensors(returned):
        if (key := _id_of(tensor)) not in seen:
            seen.add(key)
            found.append(tensor)
    return tuple(found)


def _id_of(tensor: torch.Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _tensors(value)
    elif isinstance(values, dict):
        yield from _tensors(list(values.values()))


def _built(value: Any, make: Make) -> Any:
    if isinstance(value, list):
        return [_built(each, make) for each in value]
    if not isinstance(value, str):
        return value
    if value.startswith(_DTYPE):
        return getattr(torch, value.removeprefix(_DTYPE))
    found = _TENSOR.fullmatch(value)
    if found is None:
        return value
    about, dtype, sizes, steps, offset = found.groups()
    shape = _numbers(sizes)
    strides = _contiguous(shape) if steps is None else _numbers(steps)
    maker = _maker("cpu") if about == "host " else make
    made = maker(getattr(torch, dtype), shape, strides, int(offset or 0))
    return made.requires_grad_() if about == "grad " else made


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(",") if part.strip())


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _extent(shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> int:
    if 0 in shape:
        return offset
    return offset + 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))


def _maker(device: str, period: int = 0) -> Make:
    """Returns what makes a tensor: uninitialised, or with the data of a period."""

    def make(
        dtype: torch.dtype, shape: tuple[int, ...], strides: tuple[int, ...], offset: int
    ) -> torch.Tensor:
        extent = _extent(shape, strides, offset)
        if period:
            whole = torch.zeros(extent, dtype=dtype)
            places = torch.arange(math.prod(shape)) % period
            data = places if dtype in (torch.int32, torch.int64) else places == 0
            torch.as_strided(whole, shape, strides, offset).copy_(data.view(shape))
            whole = whole.to(device)
        else:
            whole = torch.empty(extent, dtype=dtype, device=device)
        return torch.as_strided(whole, shape, strides, offset)

    return make
