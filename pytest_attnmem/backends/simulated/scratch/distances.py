"""Rules for distances between rows (ATen's Distance.cpp and cuda/DistanceKernel.cu)."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from .op_plan import AllocationPlan, Free, OpCall, Rule, Temporary, argument
from .plan_parts import CUBLAS, allocate_outputs, dense_bytes, temporary
from .reduction_launch import ReductionKernel, blocks_plan
from .tensor_iterator import reduction

if TYPE_CHECKING:
    import torch

_FEW_ROWS: Final = 25  # up to so many rows, no product of matrices is used by default
_BY_PRODUCT, _BY_DEFAULT = 1, 0


def _forward(call: OpCall) -> AllocationPlan | None:
    """Plans distances by a product of matrices, or by one kernel."""
    first, second, p = call.args[:3]
    mode = argument(call, "compute_mode") or _BY_DEFAULT
    many = first.shape[-2] > _FEW_ROWS or second.shape[-2] > _FEW_ROWS
    if not _is_plain(first, second):
        return None
    if p == 2 and (mode == _BY_PRODUCT or (mode == _BY_DEFAULT and many)):
        return None if first.dtype.itemsize < 4 else _by_product(call)
    return allocate_outputs(call)


def _by_product(call: OpCall) -> AllocationPlan:
    """Plans ``_euclidean_dist``: the product of the rows with their norms beside them."""
    first, second = call.args[:2]
    of_first, of_second = _norms(call, first, "first"), _norms(call, second, "second")
    return (
        *of_first,
        *of_second,
        Temporary("-2 first", dense_bytes(first)),
        Temporary("first, wide", _wide(first)),
        *(Free("ones of first"), Free("norms of first"), Free("-2 first")),
        Temporary("second, wide", _wide(second)),
        *(Free("norms of second"), Free("ones of second")),
        *allocate_outputs(call),
        CUBLAS,
        *(Free("second, wide"), Free("first, wide")),
    )


def _norms(call: OpCall, x: torch.Tensor, name: str) -> AllocationPlan:
    rows, columns, size = prod(x.shape[:-1]), x.shape[-1], x.dtype.itemsize
    loop = reduction((rows, columns), (columns, 1), size, [size], (1,), True)
    return (
        Temporary(f"squares of {name}", dense_bytes(x)),
        Temporary(f"norms of {name}", rows * size),
        *blocks_plan(loop, ReductionKernel(size), call.profile, f"{name} "),
        Free(f"squares of {name}"),
        Temporary(f"ones of {name}", rows * size),
    )


def _wide(x: torch.Tensor) -> int:
    return prod(x.shape[:-1]) * (x.shape[-1] + 2) * x.dtype.itemsize


def _backward(call: OpCall) -> AllocationPlan | None:
    """Plans a term for each pair of rows, and the sum over the other rows."""
    grad, first, second, p, distances = call.args
    if not (_is_plain(first, second) and grad.is_contiguous() and distances.is_contiguous()):
        return None
    if not p:
        return allocate_outputs(call)
    batch, others, row = prod(first.shape[:-2]), second.shape[-2], prod(first.shape[-2:])
    size = first.dtype.itemsize
    shape, strides = (batch, others, row), (others * row, row, 1)
    loop = reduction(shape, strides, size, [size], (1,), False, out_strides=(row, 1))
    total = blocks_plan(loop, ReductionKernel(size), call.profile)
    return (*allocate_outputs(call), *temporary("terms", batch * others * row * size, total))


def _is_plain(first: torch.Tensor, second: torch.Tensor) -> bool:
    together = first.shape[:-2] == second.shape[:-2] and first.dtype == second.dtype
    filled = bool(first.numel() and second.numel())
    return together and filled and first.is_contiguous() and second.is_contiguous()


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._cdist_forward.default": _forward,
        "aten._cdist_backward.default": _backward,
    }
)
