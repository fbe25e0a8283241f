"""Rules for indexing with tensors (TensorAdvancedIndexing.cpp and cuda/Indexing.cu of ATen)."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch

from .cub import radix_sort_storage, scan_storages
from .nonzero import PLACES, places_of_mask
from .op_plan import AllocationPlan, Free, OpCall, Rule, Step, Temporary, argument
from .plan_parts import allocate_outputs, copy_bytes, dense_bytes, temporaries, temporary
from .reduction_ops import extrema_of_all
from .strides import contiguous_strides, dense_without_overlap


def _scatter_reduce(call: OpCall) -> AllocationPlan | None:
    x, _dim, index, source = call.args[:4]
    if not (x.numel() and index.numel()):
        return None
    if argument(call, "reduce") != "mean":
        return allocate_outputs(call)
    empty = temporary("elements without a value", x.numel())
    count = temporary("ones", dense_bytes(source), temporary("count", dense_bytes(x), empty))
    return (*allocate_outputs(call), *count)


def _index_reduce(call: OpCall) -> AllocationPlan | None:
    x, _dim, index, source = call.args[:4]
    if not (x.numel() and index.is_contiguous() and source.is_contiguous() and source.numel()):
        return None
    if argument(call, "reduce") != "mean":
        return allocate_outputs(call)
    if call.deterministic:
        return None  # the count sorts its places
    ones = temporary("ones", dense_bytes(source))
    empty = temporary("elements without a value", x.numel())
    return (*allocate_outputs(call), *temporary("count", dense_bytes(x), ones, empty))


_INDEX: Final = 8
_SCALAR: Final = 8


class IndexTensor(NamedTuple):
    """An index tensor as the kernel reads it: expanded, as int64."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    cast: bool
    on_host: bool = False

    @property
    def nbytes(self) -> int:
        """Returns the bytes of its elements as int64."""
        return prod(self.shape) * _INDEX


def _index_tensors(indices: Sequence[Any]) -> list[IndexTensor] | None:
    """Returns the indices, expanded to one shape; None if a mask makes the shape unknown."""
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
        found.append(IndexTensor(shape, expanded, cast, index.device.type == "cpu"))
    return found


def _are_by_column(indices: Sequence[IndexTensor]) -> bool:
    """Returns True if all indices have elements in another order than that of rows."""
    first = indices[0]
    plain = contiguous_strides(first.shape)
    moved = any(
        size > 1 and stride not in (0, usual)
        for size, stride, usual in zip(first.shape, first.strides, plain, strict=True)
    )
    in_order = dense_without_overlap(first.shape, first.strides)
    return moved and in_order and len({index.strides for index in indices}) == 1


def _copies(indices: Sequence[IndexTensor]) -> list[int]:
    """Returns the bytes of a copy of each index; strides that differ require contiguous copies."""
    if len({index.strides for index in indices}) == 1:
        return [0] * len(indices)
    plain = contiguous_strides(indices[0].shape)
    return [0 if index.strides == plain else index.nbytes for index in indices]


def _get(call: OpCall) -> AllocationPlan | None:
    indices = _index_tensors(call.args[1])
    if indices is None:
        return _get_by_mask(call)
    if _are_by_column(indices):
        return None  # the result has the order of the indices on CUDA, not here
    return _with_copies(indices, allocate_outputs(call))


def _masked_scatter(call: OpCall) -> AllocationPlan | None:
    """Plans the numbers of the elements that are true, a scan over the expanded mask.

    See ``launch_masked_scatter_kernel`` in IndexKernel.cu of ATen.
    """
    x, mask, source = call.args[:3]
    target = call.outputs[0] if call.outputs else x
    shape, count = target.shape, target.numel()
    if not count:
        return allocate_outputs(call)
    storages = list(scan_storages(count, _INDEX, whole=True))
    if mask.dtype is not torch.bool or len(storages) > 1:
        return None
    expanded = mask.expand(shape).is_contiguous()
    scan = temporary("scan", storages[0])
    copied = temporary("contiguous source", copy_bytes(source))
    plan = temporary("contiguous mask", 0 if expanded else count, scan, copied)
    places = temporary("places", count * _INDEX, plan)
    return (*allocate_outputs(call), *places) if target.is_contiguous() else None


def _get_by_mask(call: OpCall) -> AllocationPlan | None:
    found = _only_mask(call)
    if found is None:
        return None
    mask, dim = found
    places = places_of_mask(mask, call.outputs[0].shape[dim], call.profile)
    return None if places is None else (*places, *allocate_outputs(call), Free(PLACES))


def _only_mask(call: OpCall) -> tuple[Any, int] | None:
    """Returns the mask that is the only index, and the dimension that it starts at."""
    given = [(index, dim) for dim, index in enumerate(call.args[1]) if index is not None]
    if len(given) != 1 or given[0][0].dtype not in (torch.bool, torch.uint8):
        return None
    mask, dim = given[0]
    return (mask, dim) if mask.dim() and mask.device == call.args[0].device else None


def _with_copies(indices: Sequence[IndexTensor], inner: AllocationPlan) -> AllocationPlan:
    """Returns a plan with the casts or copies of the indices; a copy replaces a cast."""
    sizes = [
        copy or index.nbytes * index.cast
        for copy, index in zip(_copies(indices), indices, strict=True)
    ]
    return temporaries({f"index {at}": nbytes for at, nbytes in enumerate(sizes)}, inner)


def _is_sorted(call: OpCall) -> bool:
    """Returns True if indices are sorted so that the same one of several values is last."""
    return call.deterministic and call.args[2].numel() > 1


def _put(call: OpCall) -> AllocationPlan | None:
    """Plans a write; the indices are sorted first if values are added or order matters."""
    indices = _index_tensors(call.args[1])
    accumulate = bool(argument(call, "accumulate"))
    if indices is None:
        return _put_by_mask(call, accumulate)
    moved = call.args[2].device != call.args[0].device
    number = call.args[2].dtype.itemsize if moved else 0
    if call.deterministic and any(index.on_host for index in indices):
        return None
    if accumulate or _is_sorted(call):
        added = None if moved else _sorted_put(call, indices, call.args[1])
        return None if added is None else (*allocate_outputs(call), *added)
    held = [step for step in _with_copies(indices, ()) if isinstance(step, Temporary)]
    write: AllocationPlan = (*held, *(Free(step.name) for step in held))
    return (*allocate_outputs(call), *temporary("number of the host", number, write))


def _put_by_mask(call: OpCall, accumulate: bool) -> AllocationPlan | None:
    """Plans a write by a mask; a number of the host is filled in instead.

    The values tell how many elements the mask has; None if they are expanded.
    """
    found, (target, _, values) = _only_mask(call), call.args[:3]
    if found is None:
        return None
    mask, dim = found
    if values.device != mask.device:
        return None if accumulate or values.numel() != 1 else allocate_outputs(call)
    behind = target.dim() - dim - mask.dim()
    count = values.shape[-behind - 1] if values.dim() > behind else 1
    places = None if count == 1 else places_of_mask(mask, count, call.profile)
    if places is None:
        return None
    inner: AllocationPlan | None = (*places, Free(PLACES))
    if accumulate or _is_sorted(call):
        rows = [IndexTensor((count,), (1,), False)] * mask.dim()
        inner = _sorted_put(call, rows, [None] * dim + [mask] * mask.dim(), places)
    return None if inner is None else (*allocate_outputs(call), *inner)


def _sorted_put(
    call: OpCall,
    places: Sequence[IndexTensor],
    indices: Sequence[Any],
    expanded: AllocationPlan = (),
) -> AllocationPlan | None:
    """Plans ``index_put_with_sort_kernel``; ``expanded`` makes the indices from a mask."""
    target, _, values = call.args[:3]
    if call.outputs:  # a copy is written
        target = call.outputs[0]
    apart = _are_apart(indices)
    count = prod(places[0].shape)
    if not count:  # nothing is sorted
        return temporary("contiguous target", copy_bytes(target), expanded)
    if any(place.cast for place in places) or not values.numel():
        return None
    shape = tuple(target.shape)
    indexed = [dim for dim, index in enumerate(indices) if index is not None]
    behind = prod(shape[indexed[-1] + 1 :])
    if apart:
        behind = prod(size for dim, size in enumerate(shape) if dim not in indexed)
    before = 1 if apart else prod(shape[: indexed[0]])
    if not behind:
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
    sort = temporary("indices", every, temporary("sort", storage, ()))
    steps: list[Step] = [
        *expanded,
        *_linear_index(call, places),
        Free(PLACES),
        *(source for source in sources if source.nbytes),
        Temporary("sorted indices", every),
        Temporary("original indices", every),
        *(step for step in sort if step != Free("indices")),
    ]
    ended = ("indices", "original indices", "sorted indices", "transposed target")
    frees = tuple(Free(name) for name in (*ended, "contiguous values", "linear index"))
    return temporary("contiguous target", copy_bytes(target), (*steps, *frees))


def _are_apart(indices: Sequence[Any]) -> bool:
    """Returns True if other dimensions separate the indexed ones, which then move to the front."""
    found = [dim for dim, index in enumerate(indices) if index is not None]
    return found[-1] - found[0] + 1 != len(found)


def _linear_index(call: OpCall, indices: Sequence[IndexTensor]) -> AllocationPlan:
    """Plans the checks of each index, and its product with its stride, added to the first.

    Autograd asks for no checks, by ``unsafe``.
    """
    plan: AllocationPlan = ()
    for number, index in enumerate(indices):
        check = () if argument(call, "unsafe") else _range_check(index, call)
        name = f"index {number} by stride" if number else "linear index"
        product: AllocationPlan = (
            *check,
            Temporary("wrapped index", index.nbytes),
            Temporary(name, index.nbytes),
            Free("wrapped index"),
        )
        if index.on_host and call.args[0].device.type != "cpu":  # computed there, and then moved
            product = (Temporary(name, index.nbytes),)
        plan += (*product, *((Free(name),) if number else ()))
    return plan


def _range_check(index: IndexTensor, call: OpCall) -> AllocationPlan:
    extrema = extrema_of_all(call, index.shape, index.strides, torch.int64)
    smallest = (Temporary("smallest index", _SCALAR), *extrema)
    compared = (*temporary("too large", 1), *temporary("too small", 1))
    return (*temporary("largest index", _SCALAR, smallest, compared), Free("smallest index"))


TAKES_COMPLEX: Final = ("aten.scatter_reduce.two", "aten.scatter_reduce_.two")
RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.scatter_reduce.two": _scatter_reduce,
        "aten.scatter_reduce_.two": _scatter_reduce,
        "aten.index_reduce.default": _index_reduce,
        "aten.index_reduce_.default": _index_reduce,
        "aten.index.Tensor": _get,
        "aten._unsafe_index.Tensor": _get,
        "aten.masked_scatter.default": _masked_scatter,
        "aten.masked_scatter_.default": _masked_scatter,
        **{
            f"aten.{name}.default": _put
            for name in ("index_put", "index_put_", "_unsafe_index_put", "_index_put_impl_")
        },
    }
)
