"""Rules for sums, extrema, norms and moments (aten/src/ATen/native/ReduceOps.cpp)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from types import MappingProxyType
from typing import Any, Final

import torch

from ....profiles import DeviceProfile
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
from .reduction_launch import ReductionKernel, blocks_plan
from .tensor_iterator import Reduction, reduction


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


def _arithmetic(call: OpCall) -> AllocationPlan:
    """Plans sums, products, means and norms, whose partial results have the accumulation dtype.

    If the dtype of the sum is not that of the input, the whole input is cast first, except for
    half precision summed to float.
    """
    x: torch.Tensor = call.args[0]
    dims, into = dims_or_all(x, argument(call, "dim")), argument(call, "out")
    out_dtype = _result_dtype(call, x) if into is None else into.dtype
    cast = None
    if x.dtype != out_dtype and not (x.dtype in HALVES and out_dtype == torch.float32):
        cast = out_dtype
    dtype = cast or x.dtype
    loop = loop_over(x, dims, bool(argument(call, "keepdim")), [out_dtype.itemsize], cast, into)
    kernel = ReductionKernel(
        accumulate_type(dtype).itemsize, into_output=dtype not in HALVES or out_dtype != dtype
    )
    steps = blocks_plan(loop, kernel, call.profile)
    return (*allocate_outputs(call), *temporary("cast", dense_bytes(x, cast) if cast else 0, steps))


def _result_dtype(call: OpCall, x: torch.Tensor) -> torch.dtype:
    """Returns the requested dtype, or int64 for the sum of integers."""
    asked = argument(call, "dtype")
    if isinstance(asked, torch.dtype):
        return asked
    if x.dtype.is_floating_point or x.dtype.is_complex:
        return x.dtype
    return torch.int64


def _extremum(call: OpCall) -> AllocationPlan:
    """Plans ``amax`` and ``amin``."""
    x: torch.Tensor = call.args[0]
    dims, size = dims_or_all(x, argument(call, "dim")), x.dtype.itemsize
    into = argument(call, "out")
    loop = loop_over(x, dims, bool(argument(call, "keepdim")), [size], into=into)
    return (
        *allocate_outputs(call),
        *blocks_plan(loop, ReductionKernel(x.dtype.itemsize), call.profile),
    )


def _extremum_of_all(call: OpCall) -> AllocationPlan:
    """Plans ``max`` and ``min`` of all elements, made contiguous (native/ReduceAllOps.cpp)."""
    x: torch.Tensor = call.args[0]
    size = x.dtype.itemsize
    loop = reduction((x.numel(),), (1,), size, [size], (0,), False)
    steps = blocks_plan(loop, ReductionKernel(size), call.profile)
    return (*allocate_outputs(call), *temporary("contiguous", copy_bytes(x), steps))


def _extremum_with_index(call: OpCall) -> AllocationPlan:
    """Plans ``max.dim`` and ``min.dim``: a value and its index take 16 bytes."""
    x: torch.Tensor = call.args[0]
    dims = dims_or_all(x, argument(call, "dim"))
    loop = loop_over(x, dims, bool(argument(call, "keepdim")), [x.dtype.itemsize, 8])
    return (
        *allocate_outputs(call),
        *blocks_plan(loop, ReductionKernel(16, into_output=False), call.profile),
    )


def _index_of_extremum(call: OpCall) -> AllocationPlan:
    """Plans ``argmax`` and ``argmin``; without a dimension, the input is one row."""
    x: torch.Tensor = call.args[0]
    dim = argument(call, "dim")
    kernel = ReductionKernel(16, into_output=False)
    if dim is None:
        stride = row_stride(x.shape, x.stride())
        row = reduction((x.numel(),), (stride or 1,), x.dtype.itemsize, [8], (0,), False)
        steps = blocks_plan(row, kernel, call.profile)
        copy = dense_bytes(x) if stride is None else 0
        return (*allocate_outputs(call), *temporary("one row", copy, steps))
    loop = loop_over(x, dims_or_all(x, dim), bool(argument(call, "keepdim")), [8])
    return (*allocate_outputs(call), *blocks_plan(loop, kernel, call.profile))


def _extrema(call: OpCall) -> AllocationPlan:
    """Plans ``aminmax``; without a dimension, the input is made contiguous."""
    x: torch.Tensor = call.args[0]
    if argument(call, "dim") is None:
        return (
            *allocate_outputs(call),
            *extrema_of_all(x.shape, x.stride(), x.dtype, call.profile),
        )
    size = x.dtype.itemsize
    dims = dims_or_all(x, argument(call, "dim"))
    loop = loop_over(x, dims, bool(argument(call, "keepdim")), [size, size])
    kernel = ReductionKernel(2 * size, into_output=False)
    return (*allocate_outputs(call), *blocks_plan(loop, kernel, call.profile))


def extrema_of_all(
    shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype, profile: DeviceProfile
) -> AllocationPlan:
    """Plans the minimum and maximum of all elements of a tensor of this layout."""
    count, size = prod(shape), dtype.itemsize
    loop = reduction((count,), (1,), size, [size, size], (0,), False)
    copy = 0 if row_stride(shape, strides) == 1 else count * size
    kernel = ReductionKernel(2 * size, into_output=False)
    return temporary("one row", copy, blocks_plan(loop, kernel, profile))


def _moments(call: OpCall) -> AllocationPlan:
    """Plans variances and means (SharedReduceOps.h)."""
    x: torch.Tensor = call.args[0]
    dims = dims_or_all(x, argument(call, "dim"))
    size = x.dtype.itemsize
    count = 2 if "mean" in call.op else 1
    loop = loop_over(x, dims, bool(argument(call, "keepdim")), [size] * count)
    return (*allocate_outputs(call), *blocks_plan(loop, moments_kernel(x.dtype), call.profile))


def moments_kernel(dtype: torch.dtype) -> ReductionKernel:
    """Returns the kernel that sums up Welford's mean, sum of squares and two counts."""
    return ReductionKernel(32 if dtype == torch.float64 else 16, unroll=2, into_output=False)


def _any_or_all(call: OpCall) -> AllocationPlan:
    """Plans ``any`` and ``all``: a byte for each result; one element is cast to bool."""
    x: torch.Tensor = call.args[0]
    if x.numel() == 1:
        cast = int(x.dtype is not torch.bool)
        return (*allocate_outputs(call), *temporary("cast", cast))
    dims = dims_or_all(x, argument(call, "dim"))
    loop = loop_over(x, dims, bool(argument(call, "keepdim")), [1])
    return (*allocate_outputs(call), *blocks_plan(loop, ReductionKernel(1), call.profile))


RULES: Final = MappingProxyType[str, Rule](
    {
        **{f"aten.{name}": _arithmetic for name in ("sum", "nansum", "mean", "prod", "norm")},
        **{f"aten.{name}": _arithmetic for name in ("sum.IntList_out", "mean.out", "prod.int_out")},
        "aten.linalg_vector_norm": _arithmetic,
        "aten.amax": _extremum,
        "aten.amin": _extremum,
        "aten.max": _extremum_of_all,
        "aten.min": _extremum_of_all,
        "aten.amax.out": _extremum,
        "aten.amin.out": _extremum,
        "aten.max.dim": _extremum_with_index,
        "aten.min.dim": _extremum_with_index,
        "aten.argmax": _index_of_extremum,
        "aten.argmin": _index_of_extremum,
        "aten.argmax.out": _index_of_extremum,
        "aten.argmin.out": _index_of_extremum,
        "aten.aminmax": _extrema,
        **{f"aten.{name}": _moments for name in ("var", "std", "var_mean", "std_mean")},
        "aten.any": _any_or_all,
        "aten.all": _any_or_all,
        "aten._is_any_true": _any_or_all,
        "aten._is_all_true": _any_or_all,
    }
)
