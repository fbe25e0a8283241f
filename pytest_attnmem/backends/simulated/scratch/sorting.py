"""Rules for sorting (aten/src/ATen/native/cuda/Sort.cpp and Sort.cu)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import torch

from .cub import radix_sort_storage, segmented_sort_storage
from .op_plan import AllocationPlan, OpCall, Rule, argument
from .plan_parts import allocate_outputs, copy_bytes, dense_bytes, temporaries, temporary, wrap_dim
from .strides import dense_without_overlap


def _search(call: OpCall) -> AllocationPlan | None:
    """Plans contiguous copies, and then copies in the common dtype.

    ``searchsorted`` takes the rows first, and ``bucketize`` last. The checks of a ``sorter`` are
    operators of their own, and its copy is not known.
    """
    first, second = call.args[:2]
    values, rows = (first, second) if "bucketize" in call.op else (second, first)
    sorter = argument(call, "sorter")
    if isinstance(sorter, torch.Tensor) or values.device != rows.device or not values.numel():
        return None if values.numel() else allocate_outputs(call)
    dtype = torch.result_type(rows, values)
    named = {"values": values, "rows": rows}
    copies = {f"{name}, contiguous": copy_bytes(x) for name, x in named.items()}
    casts = {
        f"{name}, cast": 0 if x.dtype is dtype else dense_bytes(x, dtype)
        for name, x in named.items()
    }
    return (*allocate_outputs(call), *temporaries({**copies, **casts}))


_INDEX: Final = 8
_SMALL: Final = 4096  # one block sorts a row of up to so many elements
_SEGMENTED: Final = 128  # from so many rows on, a segmented sort is used
#: The most rows, and the length from which blocks share a row (``mbtopk::should_use``).
_SHARED: Final = (
    *((20, 20_000), (40, 10_000), (80, 8000), (199, 5000), (799, 3000), (4000, 800)),
    (2**63, 400),
)
_LARGEST: Final = 2**31 - 1
#: Blocks that share a row of ``topk``: threads, elements of a thread, and how many a
#: multiprocessor runs, whose 65 536 registers 40 of each thread share.
_THREADS: Final = 256
_FEWEST_ITEMS, _MOST_ITEMS = 4, 64
_BLOCKS_PER_PROCESSOR: Final = 65_536 // (40 * _THREADS)
_DIGITS: Final = 256
#: The storage of CUB's scan of up to so many counts.
_SCAN: Final = 1279
_ONE_STORAGE: Final = 28_000


def _sort(call: OpCall) -> AllocationPlan | None:
    """Plans a sort: short rows in one block each, up to 127 long rows by radix sort."""
    x: torch.Tensor = call.args[0]
    if not call.outputs or x.numel() == 0 or x.dim() == 0:
        return allocate_outputs(call) if call.outputs else None
    dim = wrap_dim(argument(call, "dim"), x.dim())
    length = x.shape[dim]
    rows = x.numel() // length
    if length <= _SMALL:
        return (*allocate_outputs(call), *temporary("numbers", length * _INDEX))
    in_order = x.stride(dim) == 1 and dense_without_overlap(x.shape, x.stride())
    if x.numel() > _LARGEST:
        return None
    sorts = _rows_of(call, x, rows)
    if sorts is None:
        return None
    if not in_order:
        by_row = _strides_by_row(x, dim)
        values, indices = (0 if made.stride() == by_row else made.nbytes for made in call.outputs)
        sizes = {"elements by row": dense_bytes(x), "sorted elements": values}
        sorts = temporaries({**sizes, "sorted indices": indices}, sorts)
    return (*allocate_outputs(call), *sorts)


def _strides_by_row(x: torch.Tensor, dim: int) -> tuple[int, ...]:
    """Returns the strides of a dense copy with that dimension last, the others in their order.

    See ``infer_dense_strides_dim_last`` in Sort.cpp.
    """
    strides, step = [0] * x.dim(), 1
    for each in sorted(range(x.dim()), key=lambda each: (each != dim, x.stride(each), -each)):
        strides[each] = step
        step *= x.shape[each]
    return tuple(strides)


def _rows_of(call: OpCall, x: torch.Tensor, rows: int) -> AllocationPlan | None:
    count, size = x.numel(), x.dtype.itemsize
    if rows >= _SEGMENTED:
        sort = temporary("sort", segmented_sort_storage(count, size, _INDEX))
        return temporary("places", count * _INDEX, sort)
    storage = radix_sort_storage(count, size, _INDEX, 8 * size, call.profile)
    if storage is None:
        return None
    if rows == 1:
        return temporary("places", count * _INDEX, temporary("sort", storage))
    by_row = radix_sort_storage(count, _INDEX, 0, rows.bit_length(), call.profile)
    if by_row is None:
        return None
    held = dict.fromkeys(("places and rows", "sorted places and rows"), count * _INDEX)
    by_value = temporary("sorted values", count * size, temporary("sort by value", storage))
    return temporaries(held, by_value, temporary("sort by row", by_row))


def _top(call: OpCall) -> AllocationPlan | None:
    """Plans ``topk``: one block for each row, or several for rows that are long for their number.

    Up to 4096 values are sorted in place (TensorTopK.cu).
    """
    x: torch.Tensor = call.args[0]
    if x.numel() == 0 or call.args[1] > _SMALL or not _plain_results(call):
        return None
    if x.dim() == 0 or call.args[1] == 0:
        return allocate_outputs(call)
    length = x.shape[wrap_dim(argument(call, "dim"), x.dim())]
    rows = x.numel() // length
    longest = next(limit for most, limit in _SHARED if rows <= most)
    counts: AllocationPlan | None = ()
    if length >= longest:
        counts = _counts(call, x.dtype.itemsize, rows, length)
    if counts is None:
        return None
    return (*allocate_outputs(call), *temporary("contiguous", copy_bytes(x), counts))


def _counts(call: OpCall, size: int, rows: int, length: int) -> AllocationPlan | None:
    """Plans the counts of digits by block and by row (``mbtopk::launch``)."""
    blocks_at_once = call.profile.multiprocessors * _BLOCKS_PER_PROCESSOR
    items = -(-rows * length // (blocks_at_once * _THREADS))
    per_block = max(_FEWEST_ITEMS, min(items, _MOST_ITEMS)) * _THREADS
    blocks = -(-length // per_block) * rows
    if blocks > _ONE_STORAGE or call.profile.kernels is None:
        return None
    held = {
        "k-th values": rows * size,
        "semaphores": rows * 8,
        "digits wanted": rows * (16 if size == 8 else 8),
        "counts": blocks * _DIGITS * 2,
        "sums of digits": rows * _DIGITS * 4,
        "within k": blocks * 4,
        "equal to k-th": blocks * 4,
    }
    return temporaries(held, temporary("scan", _SCAN), temporary("second scan", _SCAN))


def _selected(call: OpCall) -> AllocationPlan | None:
    """Plans ``kthvalue``, and ``median`` along a dimension (Sorting.cpp of ATen's cuda folder)."""
    x: torch.Tensor = call.args[0]
    return temporary("contiguous", copy_bytes(x), allocate_outputs(call)) if x.numel() else None


def _plain_results(call: OpCall) -> bool:
    """Returns True if the results, where the caller gives them, need no copies."""
    given = call.kwargs.get("values"), call.kwargs.get("indices")
    return all(tensor is None or tensor.is_contiguous() for tensor in given)


def _median(call: OpCall) -> AllocationPlan | None:
    """Plans the median of all elements, which are sorted."""
    x: torch.Tensor = call.args[0]
    count = x.numel()
    if not count or not x.is_contiguous() or count > _LARGEST:
        return None
    short = temporary("numbers", count * _INDEX)
    sort = _rows_of(call, x, 1) if count > _SMALL else short
    if sort is None:
        return None
    indices = temporary("indices", count * _INDEX, sort)
    is_nan = temporary("is nan", 1, allocate_outputs(call))
    return temporary("sorted", dense_bytes(x), indices, is_nan)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.searchsorted.Tensor": _search,
        "aten.bucketize.Tensor": _search,
        "aten.sort.default": _sort,
        "aten.sort.stable": _sort,
        "aten.topk.default": _top,
        "aten.topk.values": _top,
        "aten.kthvalue.default": _selected,
        "aten.median.default": _median,
        "aten.median.dim": _selected,
        "aten.nanmedian.dim": _selected,
    }
)
