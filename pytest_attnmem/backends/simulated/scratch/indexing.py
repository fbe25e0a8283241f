"""Reading and writing by indices (aten/src/ATen/native/TensorAdvancedIndexing.cpp, Indexing.cu)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch

from ..op_plan import AllocationPlan, Free, OpCall, Rule, Step, Temporary
from .cub import radix_sort_storage
from .plan_steps import allocate_outputs, temporary
from .reduction_ops import extrema_of_all
from .tensor_bytes import copy_bytes, dense_bytes, dense_without_overlap
from .tensor_iterator import contiguous_strides

_INDEX: Final = 8
_SCALAR: Final = 8


class Places(NamedTuple):
    """An index tensor as the kernel takes it: expanded, and as int64."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    cast: bool

    @property
    def nbytes(self) -> int:
        """Of its elements as int64."""
        return prod(self.shape) * _INDEX


def _places(indices: Sequence[Any]) -> list[Places] | None:
    """The indices, expanded to one shape; nothing where a mask makes the shape unknown."""
    given = [index for index in indices if index is not None]
    if not given or any(index.dtype not in (torch.int64, torch.int32) for index in given):
        return None
    shape = tuple(torch.broadcast_shapes(*(index.shape for index in given)))
    found = []
    for index in given:
        cast = index.dtype != torch.int64
        expanded = tuple(index.expand(shape).stride())
        if cast and not dense_without_overlap(shape, expanded):
            expanded = contiguous_strides(shape)
        found.append(Places(shape, expanded, cast))
    return found


def _copies(places: Sequence[Places]) -> list[int]:
    """Bytes of the contiguous copies that are made where strides differ between indices."""
    if len({place.strides for place in places}) == 1:
        return [0] * len(places)
    plain = contiguous_strides(places[0].shape)
    return [0 if place.strides == plain else place.nbytes for place in places]


def _read(call: OpCall) -> AllocationPlan | None:
    places = _places(call.args[1])
    if places is None:
        return None
    return _held(places, allocate_outputs(call))


def _held(places: Sequence[Places], inner: AllocationPlan) -> AllocationPlan:
    """Casts are replaced by the copies of themselves."""
    copies = _copies(places)
    for number, nbytes in reversed(list(enumerate(copies))):
        cast = places[number].nbytes * places[number].cast
        inner = temporary(f"index {number}", nbytes or cast, inner)
    return inner


def _write(call: OpCall) -> AllocationPlan | None:
    """One kernel writes; where values are added, or order matters, places are sorted first."""
    places = _places(call.args[1])
    accumulate = bool(call.args[3]) if len(call.args) > 3 else False
    accumulate = bool(call.kwargs.get("accumulate", accumulate))
    if places is None:
        return None
    if accumulate or call.deterministic:
        added = _sorted(call, places)
        return None if added is None else (*allocate_outputs(call), *added)
    held = [step for step in _held(places, ()) if isinstance(step, Temporary)]
    return (*allocate_outputs(call), *held, *(Free(step.name) for step in held))


def _sorted(call: OpCall, places: Sequence[Places]) -> AllocationPlan | None:
    """``index_put_with_sort_kernel``."""
    target, indices, values = call.args[:3]
    apart = _apart(indices)
    if any(place.cast for place in places) or not values.numel():
        return None
    shape = tuple(target.shape)
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    behind = prod(shape[indexed[-1] + 1 :])
    if apart:
        behind = prod(size for dim, size in enumerate(shape) if dim not in indexed)
    before = 1 if apart else prod(shape[: indexed[0]])
    count = prod(places[0].shape)
    if not count or not behind:
        return None
    largest = (target.numel() - 1) // behind
    storage = radix_sort_storage(count, 8, 8, max(largest.bit_length(), 1), call.profile)
    if storage is None:
        return None
    full = count * before * behind
    copied = values.numel() < full or not values.is_contiguous()
    sources = (
        Temporary("contiguous values", full * values.dtype.itemsize if copied else 0),
        Temporary("transposed target", dense_bytes(target) if apart else 0),
    )
    every = count * _INDEX
    sort = temporary("places", every, temporary("sort", storage, ()))
    steps: list[Step] = [
        *_linear_index(call, places),
        *(source for source in sources if source.nbytes),
        Temporary("sorted places", every),
        Temporary("original places", every),
        *(step for step in sort if step != Free("places")),
    ]
    ended = ("places", "original places", "sorted places", "transposed target")
    frees = tuple(Free(name) for name in (*ended, "contiguous values", "linear index"))
    return temporary("contiguous target", copy_bytes(target), (*steps, *frees))


def _apart(indices: Sequence[Any]) -> bool:
    """Whether indexed dimensions have others between them, so that they are moved to the front."""
    found = [dim for dim, index in enumerate(indices) if index is not None]
    return found[-1] - found[0] + 1 != len(found)


def _linear_index(call: OpCall, places: Sequence[Places]) -> AllocationPlan:
    """Every index is checked, wrapped, multiplied by its stride, and added to the first."""
    plan: AllocationPlan = ()
    for number, place in enumerate(places):
        extrema = extrema_of_all(place.shape, place.strides, torch.int64, call.profile)
        check = temporary(
            "largest index",
            _SCALAR,
            (
                Temporary("smallest index", _SCALAR),
                *extrema,
                *temporary("too large", 1),
                *temporary("too small", 1),
            ),
        )
        name = f"index {number} by stride" if number else "linear index"
        plan += (
            *check,
            Free("smallest index"),
            Temporary("wrapped index", place.nbytes),
            Temporary(name, place.nbytes),
            Free("wrapped index"),
            *((Free(name),) if number else ()),
        )
    return plan


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.index.Tensor": _read,
        **{
            f"aten.{name}.default": _write
            for name in ("index_put", "index_put_", "_unsafe_index_put", "_index_put_impl_")
        },
    }
)
