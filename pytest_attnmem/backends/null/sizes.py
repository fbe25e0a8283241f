"""The bytes that an operator's own code reads from the device, to find the size of its result.

Each function gets ``value``, which returns the values of a tensor on the host, and the operator's
arguments; it returns the bytes in the order of the reads. The code that reads is in
aten/src/ATen/native/cuda: Nonzero.cu, Unique.cu, SummaryOps.cu, DistributionTemplates.h,
GroupedBlas.cpp, and in aten/src/ATen/native: Repeat.h, LinearAlgebra.cpp, SegmentReduce.cpp.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

from ...errors import UnknownValue
from ...torch_releases import minor_version

Value = Callable[[torch.Tensor], torch.Tensor]
_aten = torch.ops.aten
_SINCE_2_15 = minor_version(torch.__version__) >= (2, 15)
_MASKS = (torch.bool, torch.uint8)
#: The major compute capabilities with a kernel for groups of bfloat16 (cuda/GroupedBlas.cpp).
_GROUPED = (9, 10)
#: The 1-norm of a matrix from which ``matrix_exp`` divides it by a power of two, and the largest
#: norm after that.
_EXPONENTIAL = MappingProxyType(
    {
        torch.float32: (1.461661507209034, 3.010066362817634),
        torch.float64: (0.299615891381158, 1.090863719290036),
    }
)


def _ints(*numbers: int) -> bytes:
    return struct.pack(f"{len(numbers)}i", *numbers)


def _rows(unique: Callable[..., torch.Tensor], position: int) -> Callable[[Value, Any, Any], bytes]:
    """Returns a function for operators that find different rows.

    ``position`` is that of the argument that asks for the number of each.
    """

    def answer(value: Value, args: Any, kwargs: Any) -> bytes:
        counted = kwargs.get("return_counts", args[position] if len(args) > position else False)
        number = unique(value(args[0]), dim=args[1]).shape[args[1]]
        return _longs(number) if _SINCE_2_15 and not counted else _ints(number)

    return answer


def _longs(*numbers: int) -> bytes:
    return struct.pack(f"{len(numbers)}q", *numbers)


def _raw(*numbers: torch.Tensor) -> bytes:
    return b"".join(number.reshape(1).view(torch.uint8).numpy().tobytes() for number in numbers)


def _nonzero(value: Value, args: Any, kwargs: Any) -> bytes:
    return _ints(int(torch.count_nonzero(value(args[0]))))


def _masks(value: Value, args: Any, kwargs: Any) -> bytes:
    """Returns the number of elements in each mask among the indices."""
    masks = [index for index in args[1] if index is not None and index.dtype in _MASKS]
    return _ints(*[int(torch.count_nonzero(value(mask))) for mask in masks if mask.is_cuda])


def _selected(value: Value, args: Any, kwargs: Any) -> bytes:
    mask = value(args[1]).expand(torch.broadcast_shapes(args[0].shape, args[1].shape))
    return _ints(int(torch.count_nonzero(mask)))


def _numbers(*positions: int) -> Callable[[Value, Any, Any], bytes]:
    """Returns a function for operators that read arguments of one element as numbers."""

    def answer(value: Value, args: Any, kwargs: Any) -> bytes:
        given = [args[position] for position in positions]
        numbers = [one for one in given if isinstance(one, torch.Tensor) and one.is_cuda]
        return _raw(*map(value, numbers))

    return answer


def _uniques(value: Value, args: Any, kwargs: Any) -> bytes:
    """Returns the numbers of different elements, if ``isin`` sorts them (TensorCompare.cpp)."""
    elements, tests = args[:2]
    if kwargs.get("assume_unique") or tests.numel() < int(10.0 * elements.numel() ** 0.145):
        return b""
    return _longs(len(torch.unique(value(elements))), len(torch.unique(value(tests))))


def _unique(value: Value, args: Any, kwargs: Any) -> bytes:
    """Returns the number of different elements; of booleans, the number of those that are true."""
    elements = value(args[0])
    if elements.dtype is torch.bool:
        return _ints(int(elements.sum()))
    return _longs(len(torch.unique(elements)))


def _unique_consecutive(value: Value, args: Any, kwargs: Any) -> bytes:
    dim = kwargs.get("dim", args[3] if len(args) > 3 else None)
    if dim is not None:
        return _unique_rows(value, (args[0], dim, *args[1:3]), kwargs)
    return _longs(len(torch.unique_consecutive(value(args[0]))))


_unique_rows = _rows(torch.unique_consecutive, 3)


def _repeats(value: Value, args: Any, kwargs: Any) -> bytes:
    if kwargs.get("output_size") is not None:
        return b""
    repeats = value(args[0])
    if not repeats.numel():
        return b""
    total = _longs(int(repeats.sum()))
    if _SINCE_2_15:
        return total + _raw(repeats.min())
    return total + bytes([bool((repeats >= 0).all())])


def _lengths(value: Value, args: Any, kwargs: Any) -> bytes:
    """Returns the smallest length of a segment, and whether the segments have all elements."""
    if kwargs.get("lengths") is None or kwargs.get("unsafe"):
        return b""
    lengths, whole = value(kwargs["lengths"]), args[0].shape[kwargs.get("axis", 0)]
    return _raw(lengths.min()) + bytes([bool((lengths.sum(-1) == whole).all())])


def _left_aligned(value: Value, args: Any, kwargs: Any) -> bytes:
    """Returns whether each row of a mask keeps its first elements, and no others."""
    mask = value(args[1])
    return bytes([bool((mask == mask.sort(dim=1, descending=True).values).all())])


def _masked_rows(value: Value, args: Any, kwargs: Any) -> bytes:
    """Returns the same, if it is checked, and the sizes of the parts of a nested tensor."""
    checked = kwargs.get("mask_check", args[2] if len(args) > 2 else True)
    first = _left_aligned(value, args, kwargs) if checked else b""
    counts, width = value(args[1]).sum(1).tolist(), args[0].shape[2]
    return first + _longs(*[size for count in counts for size in (count, width)])


def _range(value: Value, args: Any, kwargs: Any) -> bytes:
    return _raw(*torch.aminmax(value(args[0]))) if args[0].numel() else b""


def _range_if_equal(value: Value, args: Any, kwargs: Any) -> bytes:
    given = {**dict(zip(("min", "max"), args[2:], strict=False)), **kwargs}
    same = given.get("min", 0) == given.get("max", 0)
    return _range(value, args, kwargs) if same else b""


def _is_positive(position: int) -> Callable[[Value, Any, Any], bytes]:
    """Returns a function for operators that check a standard deviation, before 2.15."""

    def answer(value: Value, args: Any, kwargs: Any) -> bytes:
        return b"" if _SINCE_2_15 else 2 * bytes([bool((value(args[position]) >= 0).all())])

    return answer


def _ends_of_groups(value: Value, args: Any, kwargs: Any) -> bytes:
    """Returns the ends of the groups, unless the device has a kernel for all of them."""
    given = {**dict(zip(("offs", "bias", "out_dtype"), args[2:], strict=False)), **kwargs}
    a, b = args[:2]
    ends = given.get("offs")
    dtypes = {a.dtype, b.dtype, given.get("out_dtype") or torch.bfloat16}
    has_kernel = torch.cuda.get_device_capability(a.device)[0] in _GROUPED
    if ends is None or (has_kernel and dtypes == {torch.bfloat16}):
        return b""
    return _raw(*value(ends).unbind())


def _squarings(value: Value, args: Any, kwargs: Any) -> bytes:
    """Returns how often ``matrix_exp`` squares matrices, and of one matrix first its norm."""
    matrices = value(args[0])
    if matrices.numel() == 0 or matrices.abs().dtype not in _EXPONENTIAL:
        return b""
    norms = matrices.abs().sum(-2).amax(-1).reshape(-1)
    least, largest = _EXPONENTIAL[norms.dtype]
    first = _raw(norms) if len(norms) == 1 else b""
    if first and not norms >= least:
        return first
    if not norms.isfinite().all():
        raise UnknownValue("torch.linalg.matrix_exp: its input has infinities or NaN")
    times = (norms / largest).log2().ceil().clamp(min=0).long()
    different, counts = times.unique(return_counts=True)
    more = different.diff(prepend=different.new_zeros(1))
    return first + _longs(len(different), *counts.tolist(), *more.tolist())


SIZES: Final[Mapping[Any, Callable[[Value, Any, Any], bytes]]] = MappingProxyType(
    {
        _aten.nonzero.default: _nonzero,
        _aten.index.Tensor: _masks,
        _aten._unsafe_index.Tensor: _masks,
        _aten.index_put.default: _masks,
        _aten.index_put_.default: _masks,
        _aten._index_put_impl_.default: _masks,
        _aten.masked_select.default: _selected,
        _aten.masked_scatter_backward.default: _selected,
        **{op: _numbers(2) for op in (_aten.masked_fill.Tensor, _aten.masked_fill_.Tensor)},
        **{op: _numbers(3) for op in (_aten.index_fill.int_Tensor, _aten.index_fill_.int_Tensor)},
        # C++ code evaluates the arguments of a call from the last to the first.
        **{op.Tensor_Tensor: _numbers(1, 0) for op in (_aten.linspace, _aten.logspace)},
        **{op.Tensor_Scalar: _numbers(0) for op in (_aten.linspace, _aten.logspace)},
        **{op.Scalar_Tensor: _numbers(1) for op in (_aten.linspace, _aten.logspace)},
        _aten.isin.Tensor_Tensor: _uniques,
        _aten._unique2.default: _unique,
        _aten._unique.default: _unique,
        _aten.unique_consecutive.default: _unique_consecutive,
        _aten.unique_dim.default: _rows(torch.unique, 4),
        _aten.unique_dim_consecutive.default: _unique_rows,
        _aten.repeat_interleave.Tensor: _repeats,
        _aten.segment_reduce.default: _lengths,
        _aten._nested_tensor_from_mask_left_aligned.default: _left_aligned,
        _aten._nested_tensor_from_mask.default: _masked_rows,
        _aten.bincount.default: _range,
        _aten.histc.default: _range_if_equal,
        _aten.linalg_matrix_exp.default: _squarings,
        _aten.normal.float_Tensor: _is_positive(1),
        _aten.normal.Tensor_Tensor: _is_positive(1),
        # Since PyTorch 2.8.
        **({_aten._grouped_mm.default: _ends_of_groups} if hasattr(_aten, "_grouped_mm") else {}),
    }
)
