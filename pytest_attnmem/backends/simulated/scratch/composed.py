"""Rules for operators that C++ code composes of others below autograd.

Source: ATen's BinaryOps.cpp (``ldexp``), UnaryOps.cpp (``mvlgamma``), LinearAlgebra.cpp
(``dist``), SummaryOps.cpp and TensorAdvancedIndexing.cpp (``count_nonzero``).
"""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Final

import torch

from ..op_arguments import argument
from ..op_plan import AllocationPlan, Free, OpCall, Rule, Temporary
from .plan_steps import allocate_outputs, temporary
from .reduction_launch import ReductionKernel, blocks_plan
from .reduction_ops import dims_or_all, loop_over
from .tensor_bytes import HALVES, accumulate_type, dense_bytes, wrap_dim
from .tensor_iterator import reduction

_COUNT: Final = 8
_BASE: Final = 8


def _ldexp(call: OpCall) -> AllocationPlan | None:
    """Plans the power of two that the first argument is multiplied by, unless a kernel does both.

    The base is a tensor of half precision if the first argument is one.
    """
    x, exponent = call.args[:2]
    if not isinstance(exponent, torch.Tensor) or x.is_complex() or exponent.is_complex():
        return None
    integer = not exponent.dtype.is_floating_point
    if integer and x.dtype.is_floating_point:
        same = x.dim() >= exponent.dim() and call.outputs[0].shape == x.shape
        return allocate_outputs(call) if same else None
    if integer:
        return None
    power = dense_bytes(exponent)
    if x.dtype in HALVES:
        size = x.dtype.itemsize
        steps = (Temporary("base", size), Temporary("power", power), Free("base"))
        return (*steps, *allocate_outputs(call), Free("power"))
    return temporary("power", power, temporary("base", _BASE), allocate_outputs(call))


def _mvlgamma(call: OpCall) -> AllocationPlan:
    """Plans the sum of ``lgamma`` at p places of each element."""
    x, count = call.args
    dtype = call.outputs[0].dtype
    size = dtype.itemsize
    loop = reduction((x.numel(), count), (count, 1), size, [size], (1,), False)
    kernel = ReductionKernel(accumulate_type(dtype).itemsize, into_output=dtype not in HALVES)
    return (
        *(Temporary("places", count * size), Temporary("terms", x.numel() * count * size)),
        Free("places"),
        *allocate_outputs(call),
        *blocks_plan(loop, kernel, call.profile),
        Free("terms"),
    )


def _dist(call: OpCall) -> AllocationPlan:
    """Plans the differences and their norm."""
    x, other = call.args[:2]
    dtype = torch.result_type(x, other)
    count, size = prod(torch.broadcast_shapes(x.shape, other.shape)), dtype.itemsize
    kernel = ReductionKernel(accumulate_type(dtype).itemsize, into_output=dtype not in HALVES)
    loop = reduction((count,), (1,), size, [size], (0,), False)
    norm = blocks_plan(loop, kernel, call.profile)
    return temporary("differences", count * size, allocate_outputs(call), norm)


def _count_nonzero(call: OpCall) -> AllocationPlan:
    """Plans the sum of a mask, which is cast to integers first; booleans are their own mask."""
    x: torch.Tensor = call.args[0]
    loop = loop_over(x, dims_or_all(x, argument(call, "dim")), False, [_COUNT], torch.int64)
    steps = blocks_plan(loop, ReductionKernel(_COUNT), call.profile)
    cast = temporary("cast", x.numel() * _COUNT, steps)
    mask = 0 if x.dtype is torch.bool else x.numel()
    return temporary("nonzero", mask, allocate_outputs(call), cast)


def _renorm(call: OpCall) -> AllocationPlan:
    """Plans the norms of the slices, and the factors where the norms have another dtype."""
    x, _, dim = call.args[:3]
    wide = accumulate_type(x.dtype)
    keep = wrap_dim(dim, x.dim())
    loop = loop_over(x, [d for d in range(x.dim()) if d != keep], True, [wide.itemsize])
    norms = blocks_plan(loop, ReductionKernel(wide.itemsize), call.profile)
    factors = x.shape[keep] * x.dtype.itemsize if wide != x.dtype else 0
    inner = temporary("factors", factors)
    return (
        *allocate_outputs(call),
        *temporary("norms", x.shape[keep] * wide.itemsize, norms, inner),
    )


TAKES_COMPLEX: Final = ("aten.count_nonzero",)
RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.ldexp.Tensor": _ldexp,
        "aten.ldexp.out": lambda _: None,  # it keeps the power, which no rule plans
        "aten.mvlgamma.default": _mvlgamma,
        "aten.dist.default": _dist,
        "aten.count_nonzero": _count_nonzero,
        "aten.renorm.default": _renorm,
        "aten.renorm_.default": _renorm,
        "aten.isin.Tensor_Scalar": allocate_outputs,
    }
)
