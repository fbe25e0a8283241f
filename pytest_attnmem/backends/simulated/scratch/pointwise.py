"""Operators known to allocate what they return and nothing else, and how that is known.

A pointwise operator is one kernel over a TensorIterator, which casts as it reads and writes
(aten/src/ATen/native/cuda/Loops.cuh); torch tags it. A view has no memory of its own; its schema
says so. The rest are listed: most were seen to allocate nothing (``tests/data/cuda``), and a few
siblings are taken to be like them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import torch

from ..op_arguments import overload
from ..op_plan import AllocationPlan, OpCall, Rule
from .plan_steps import allocate_outputs, outputs_alone, temporary
from .tensor_bytes import dense_bytes

#: Tagged pointwise, but composed of several kernels, or of one after the host has read.
COMPOSED: Final = frozenset({"aten.equal", "aten.isfinite", "aten.mvlgamma"})
#: Overloads whose scalar becomes a tensor on the device first.
SCALAR_FIRST: Final = frozenset({"Scalar_Tensor", "Scalar_Self", "self_scalar", "x_scalar"})

#: One kernel over a TensorIterator as well, though torch does not tag them.
UNTAGGED: Final = (
    *("abs_", "mish_", "floor_divide", "floor_divide_", "hardswish", "hardswish_", "nan_to_num"),
    *("elu_backward", "hardswish_backward", "hardsigmoid_backward", "hardtanh_backward"),
    *("leaky_relu_backward", "softplus_backward", "softshrink_backward", "mish_backward"),
    *("hardshrink_backward", "log_sigmoid_backward", "threshold_", "lerp_"),
)

FACTORIES: Final = (
    *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
    *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"),
    *("full", "full_like", "new_full", "scalar_tensor", "arange", "eye", "linspace", "logspace"),
    *("tril_indices", "triu_indices"),
    *("rand", "randn", "randint", "rand_like", "randn_like", "randint_like"),
)
IN_PLACE: Final = (
    *("zero_", "fill_", "normal_", "uniform_", "random_", "exponential_", "log_normal_"),
    *("cauchy_", "geometric_", "bernoulli_.float", "detach_", "squeeze_", "unsqueeze_"),
    *("transpose_", "t_", "as_strided_", "tril_", "triu_", "eq_", "requires_grad_"),
    *("set_", "resize_"),
)


def rule_by_kind(op: str) -> Rule | None:
    """The rule of an operator that its tags or its schema tell all about."""
    if op.startswith("profiler."):
        return _nothing
    operator = overload(op)
    if operator is None:
        return None
    if _is_view(operator):
        return _nothing
    packet, _, name = op.rpartition(".")
    plain = packet not in COMPOSED and name not in SCALAR_FIRST
    if torch.Tag.pointwise in operator.tags and plain:
        return outputs_alone
    return None


def _is_view(operator: Any) -> bool:
    """Whether all that it returns is a view of what it was given, written to or not."""
    returns = operator._schema.returns
    return bool(returns) and all(
        part.alias_info is not None and not part.alias_info.is_write for part in returns
    )


def _nothing(call: OpCall) -> AllocationPlan:
    return allocate_outputs(call)


def _where(call: OpCall) -> AllocationPlan:
    """Both choices are cast to one type first, whole (native/TensorCompare.cpp)."""
    _condition, first, second = call.args
    dtype = torch.result_type(first, second)
    casts = tuple(0 if x.dtype == dtype else dense_bytes(x, dtype) for x in (first, second))
    return temporary(
        "first, cast", casts[0], temporary("second, cast", casts[1], allocate_outputs(call))
    )


def _is_infinite(call: OpCall) -> AllocationPlan:
    """Compares magnitudes, of floats (``isinf`` in native/TensorCompare.cpp)."""
    x: torch.Tensor = call.args[0]
    return temporary(
        "magnitudes", dense_bytes(x) * x.dtype.is_floating_point, allocate_outputs(call)
    )


def _power_of_scalar(call: OpCall) -> AllocationPlan:
    """The base becomes a tensor of float64 or int64, unless it is 1 (native/Pow.cpp)."""
    return (*allocate_outputs(call), *temporary("base", 0 if call.args[0] == 1 else 8))


TAKES_COMPLEX: Final = True
RULES: Final = MappingProxyType[str, Rule](
    {
        **{f"aten.{name}": outputs_alone for name in (*FACTORIES, *IN_PLACE, *UNTAGGED)},
        "aten.isinf.default": _is_infinite,
        "aten.pow.Scalar": _power_of_scalar,
        "aten.where.self": _where,
        "aten._local_scalar_dense.default": outputs_alone,  # a read of the host
        "aten.max.other": outputs_alone,
        "aten.min.other": outputs_alone,
    }
)
