"""Rules for comparing whole tensors (cuda/Equal.cpp and TensorCompare.cpp of ATen)."""

from __future__ import annotations

from math import prod
from types import MappingProxyType
from typing import Any, Final

from ....profiles import DeviceProfile
from ..op_arguments import argument
from ..op_plan import AllocationPlan, Free, OpCall, Rule, Temporary
from .plan_steps import temporary
from .reduction_launch import ReductionKernel, blocks_plan
from .strides import Operand, result_strides
from .tensor_iterator import reduction


def all_of(
    shape: tuple[int, ...], strides: tuple[int, ...], profile: DeviceProfile
) -> AllocationPlan:
    """Plans the conjunction of all elements of a bool tensor: a byte."""
    loop = reduction(shape, strides, 1, [1], tuple(range(len(shape))), False)
    return temporary("all", 1, blocks_plan(loop, ReductionKernel(1), profile))


def _equal(call: OpCall) -> AllocationPlan:
    """Plans the comparison of elements, unless the tensors are one or their shapes differ."""
    a, b = call.args[:2]
    if a.shape != b.shape or not a.numel() or _is_same(a, b):
        return ()
    return _compared(a, b, (), call.profile)


def _is_same(a: Any, b: Any) -> bool:
    same = a.untyped_storage()._cdata == b.untyped_storage()._cdata
    return bool(same and a.storage_offset() == b.storage_offset() and a.stride() == b.stride())


def _compared(a: Any, b: Any, inner: AllocationPlan, profile: DeviceProfile) -> AllocationPlan:
    shape = tuple(a.shape)
    strides = result_strides(shape, [Operand(shape, a.stride()), Operand(shape, b.stride())])
    return temporary("equal", prod(shape), inner, all_of(shape, strides, profile))


def are_alike(a: Any, b: Any) -> bool:
    """Returns True for contiguous tensors of one shape and one floating-point dtype."""
    same = a.shape == b.shape and a.dtype == b.dtype
    floats = bool(same and a.dtype.is_floating_point)
    return floats and a.is_contiguous() and a.stride() == b.stride()


def _all_close(call: OpCall) -> AllocationPlan | None:
    """Plans ``isclose`` of two tensors that are alike, then ``all``.

    The allowed error is ``atol + |rtol * other|``; a difference is close if it is finite and no
    larger. None for other tensors and if NaN equals NaN: ``composed_ops`` runs these calls.
    """
    a, b = call.args[:2]
    if argument(call, "equal_nan") or not are_alike(a, b):
        return None
    if not argument(call, "rtol") and not argument(call, "atol"):
        return _compared(a, b, (), call.profile)
    count, floats = a.numel(), a.numel() * a.dtype.itemsize
    if not count:
        return all_of(tuple(a.shape), tuple(a.stride()), call.profile)
    inner = (
        Temporary("product", floats),
        Temporary("magnitude", floats),
        Temporary("allowed", floats),
        *(Free("magnitude"), Free("product")),
        *(Temporary("difference", floats), Temporary("error", floats), Free("difference")),
        *(Temporary("magnitude", floats), Temporary("numbers", count), Temporary("finite", count)),
        Temporary("finite numbers", count),
        *(Free("finite"), Free("numbers"), Free("magnitude")),
        *temporary("close", count),
        *(Free("finite numbers"), Free("error"), Free("allowed")),
    )
    return _compared(a, b, inner, call.profile)


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten.equal.default": _equal,
        "aten.allclose.default": _all_close,
    }
)
