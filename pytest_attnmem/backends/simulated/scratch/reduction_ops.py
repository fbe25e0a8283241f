"""Rules for sums, extrema, norms and moments (aten/src/ATen/native/ReduceOps.cpp)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final

import torch

from .op_plan import AllocationPlan, OpCall, Rule, argument
from .plan_parts import (
    HALVES,
    accumulate_type,
    allocate_outputs,
    copy_bytes,
    dense_bytes,
    layout,
    row_stride,
    temporary,
    wrap_dim,
)
from .reduction_launch import ReductionKernel, blocks_plan, row_plan
from .tensor_iterator import Reduction, reduction

#: The kernel of a value with its index, which take 16 bytes.
_INDEXED: Final = ReductionKernel(16, into_output=False)


def loop_over(
    tensor: torch.Tensor,
    dims: Iterable[int],
    keepdim: bool,
    out: Sequence[int],
    like: torch.dtype | None = None,
    into: torch.Tensor | None = None,
) -> Reduction:
    """Returns the loop that reduces a tensor, or its copy of dtype ``like``.

    ``into`` is the output if it exists already.
    """
    shape, strides, offset = layout(tensor, like)
    size = (like or tensor.dtype).itemsize
    existing = None if into is None else into.stride()
    return reduction(shape, strides, size, out, tuple(dims), keepdim, offset, existing)


def dims_or_all(tensor: torch.Tensor, dims: Any) -> tuple[int, ...]:
    """Returns the dimensions given by a number or a list, or all of them."""
    rank = tensor.dim()
    if dims is None or (isinstance(dims, list | tuple) and not dims):
        return tuple(range(rank))
    many = dims if isinstance(dims, list | tuple) else [dims]
    return tuple(wrap_dim(dim, rank) for dim in many) if rank else ()


def over_dims(
    call: OpCall,
    out: Sequence[int],
    kernel: ReductionKernel,
    like: torch.dtype | None = None,
    into: torch.Tensor | None = None,
) -> AllocationPlan:
    """Plans the reduction of the first argument over the dimensions that the call names."""
    dims, keepdim = dims_or_all(call.args[0], argument(call, "dim")), argument(call, "keepdim")
    loop = loop_over(call.args[0], dims, bool(keepdim), out, like, into)
    return blocks_plan(loop, kernel, call.profile)


def _arithmetic(call: OpCall) -> AllocationPlan:
    """Plans sums, products, means and norms, whose partial results have the accumulation dtype.

    If the dtype of the sum is not that of the input, the whole input is cast first, except for
    half precision summed to float.
    """
    x: torch.Tensor = call.args[0]
    into = argument(call, "out")
    out_dtype = _result_dtype(call, x) if into is None else into.dtype
    cast = None
    if x.dtype != out_dtype and not (x.dtype in HALVES and out_dtype == torch.float32):
        cast = out_dtype
    dtype = cast or x.dtype
    kernel = ReductionKernel(
        accumulate_type(dtype).itemsize, into_output=dtype not in HALVES or out_dtype != dtype
    )
    steps = over_dims(call, [out_dtype.itemsize], kernel, cast, into)
    return (*allocate_outputs(call), *temporary("cast", dense_bytes(x, cast) if cast else 0, steps))


def _result_dtype(call: OpCall, x: torch.Tensor) -> torch.dtype:
    """Returns the requested dtype, or int64 for the sum of integers."""
    asked = argument(call, "dtype")
    if isinstance(asked, torch.dtype):
        return asked
    return x.dtype if x.dtype.is_floating_point or x.dtype.is_complex else torch.int64


def _extremum(call: OpCall) -> AllocationPlan:
    """Plans ``amax`` and ``amin``."""
    size = call.args[0].dtype.itemsize
    steps = over_dims(call, [size], ReductionKernel(size), into=argument(call, "out"))
    return (*allocate_outputs(call), *steps)


def _extremum_of_all(call: OpCall) -> AllocationPlan:
    """Plans ``max`` and ``min`` of all elements, made contiguous (native/ReduceAllOps.cpp)."""
    x: torch.Tensor = call.args[0]
    size = x.dtype.itemsize
    steps = row_plan(call, x.numel(), size, [size], ReductionKernel(size))
    return (*allocate_outputs(call), *temporary("contiguous", copy_bytes(x), steps))


def _extremum_with_index(call: OpCall) -> AllocationPlan:
    """Plans ``max.dim`` and ``min.dim``."""
    return (*allocate_outputs(call), *over_dims(call, [call.args[0].dtype.itemsize, 8], _INDEXED))


def _index_of_extremum(call: OpCall) -> AllocationPlan:
    """Plans ``argmax`` and ``argmin``; without a dimension, the input is one row."""
    x: torch.Tensor = call.args[0]
    if argument(call, "dim") is not None:
        return (*allocate_outputs(call), *over_dims(call, [8], _INDEXED))
    stride = row_stride(x.shape, x.stride())
    steps = row_plan(call, x.numel(), x.dtype.itemsize, [8], _INDEXED, stride or 1)
    copy = dense_bytes(x) if stride is None else 0
    return (*allocate_outputs(call), *temporary("one row", copy, steps))


def _extrema(call: OpCall) -> AllocationPlan:
    """Plans ``aminmax``; without a dimension, the input is made contiguous."""
    x: torch.Tensor = call.args[0]
    if argument(call, "dim") is None:
        return (*allocate_outputs(call), *extrema_of_all(call, x.shape, x.stride(), x.dtype))
    size = x.dtype.itemsize
    kernel = ReductionKernel(2 * size, into_output=False)
    return (*allocate_outputs(call), *over_dims(call, [size, size], kernel))


def extrema_of_all(
    call: OpCall, shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype
) -> AllocationPlan:
    """Plans the minimum and maximum of all elements of a tensor of this layout."""
    count, size = prod(shape), dtype.itemsize
    copy = 0 if row_stride(shape, strides) == 1 else count * size
    kernel = ReductionKernel(2 * size, into_output=False)
    return temporary("one row", copy, row_plan(call, count, size, [size, size], kernel))


def _moments(call: OpCall) -> AllocationPlan:
    """Plans variances and means (SharedReduceOps.h)."""
    dtype = call.args[0].dtype
    sizes = [dtype.itemsize] * (2 if "mean" in call.op else 1)
    return (*allocate_outputs(call), *over_dims(call, sizes, moments_kernel(dtype)))


def moments_kernel(dtype: torch.dtype) -> ReductionKernel:
    """Returns the kernel that sums up Welford's mean, sum of squares and two counts."""
    return ReductionKernel(32 if dtype == torch.float64 else 16, unroll=2, into_output=False)


def _any_or_all(call: OpCall) -> AllocationPlan:
    """Plans ``any`` and ``all``: a byte for each result; one element is cast to bool."""
    x: torch.Tensor = call.args[0]
    if x.numel() == 1:
        cast = int(x.dtype is not torch.bool)
        return (*allocate_outputs(call), *temporary("cast", cast))
    return (*allocate_outputs(call), *over_dims(call, [1], ReductionKernel(1)))


_OPERATORS: Final[Mapping[Rule, Sequence[str]]] = MappingProxyType(
    {
        _arithmetic: (
            *("sum", "nansum", "mean", "prod", "norm", "linalg_vector_norm"),
            *("sum.IntList_out", "mean.out", "prod.int_out"),
        ),
        _extremum: ("amax", "amin", "amax.out", "amin.out"),
        _extremum_of_all: ("max", "min"),
        _extremum_with_index: ("max.dim", "min.dim"),
        _index_of_extremum: ("argmax", "argmin", "argmax.out", "argmin.out"),
        _extrema: ("aminmax",),
        _moments: ("var", "std", "var_mean", "std_mean"),
        _any_or_all: ("any", "all", "_is_any_true", "_is_all_true"),
    }
)
RULES: Final = MappingProxyType[str, Rule](
    {f"aten.{name}": rule for rule, names in _OPERATORS.items() for name in names}
)
