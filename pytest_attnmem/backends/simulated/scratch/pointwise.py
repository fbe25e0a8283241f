"""Rules for pointwise operators, views, factories and in-place operators.

They allocate their outputs and nothing else. A pointwise operator is one kernel over a
TensorIterator, which casts as it reads and writes (aten/src/ATen/native/cuda/Loops.cuh); torch tags
it. A view allocates nothing; its schema shows it. The others are listed: recordings show most of
them (``tests/data/cuda``), and a few similar operators are assumed to do the same.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Final

import torch

from .op_plan import AllocationPlan, OpCall, Rule, overload
from .plan_parts import allocate_outputs, dense_bytes, temporaries, temporary

#: Tagged pointwise, but with several kernels, or with a read by the host.
COMPOSITE: Final = frozenset(
    f"aten.{name}"
    for name in ("equal", "isfinite", "isinf", "ldexp", "ldexp_", "mvlgamma", "mvlgamma_")
)
#: Overloads that first copy a scalar to the device.
SCALAR_FIRST: Final = frozenset({"Scalar_Tensor", "Scalar_Self", "self_scalar", "x_scalar"})

#: Also one kernel over a TensorIterator, but not tagged by torch.
UNTAGGED: Final = (
    *("abs_", "mish_", "floor_divide", "floor_divide_", "hardswish", "hardswish_", "nan_to_num"),
    *("elu_backward", "hardswish_backward", "hardsigmoid_backward", "hardtanh_backward"),
    *("leaky_relu_backward", "softplus_backward", "softshrink_backward", "mish_backward"),
    *("glu_jvp", "hardshrink_backward", "log_sigmoid_backward", "threshold_", "lerp_"),
)

FACTORIES: Final = (
    *("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided"),
    *("zeros", "zeros_like", "new_zeros", "ones", "ones_like", "new_ones"),
    *("full", "full_like", "new_full", "scalar_tensor", "arange", "eye", "linspace", "logspace"),
    *("tril_indices", "triu_indices", "_new_zeros_with_same_feature_meta"),
    *("rand", "randn", "randint", "rand_like", "randn_like", "randint_like"),
)
_IN_STEPS: Final = ("arange", "linspace", "logspace")
#: Factories that fill a target (``out=``), with the names of their overloads.
INTO_TARGETS: Final = (
    *("zeros.out", "ones.out", "full.out", "eye.out", "eye.m_out", "empty.out"),
    *("arange.out", "arange.start_out", "linspace.out", "logspace.out"),
    *("rand.out", "rand.generator_out", "randn.out", "randn.generator_out"),
    *("randint.out", "randint.generator_out", "randint.low_out", "randint.low_generator_out"),
    "normal.float_float_out",
)
IN_PLACE: Final = (
    *("zero_", "fill_", "normal_", "uniform_", "random_", "exponential_", "log_normal_"),
    *("cauchy_", "geometric_", "bernoulli_.float", "detach_", "squeeze_", "unsqueeze_"),
    *("transpose_", "t_", "as_strided_", "tril_", "triu_", "requires_grad_"),
    *("set_", "resize_", "resize_as_", "eq_", "ne_", "ge_", "gt_", "le_", "lt_"),
    *("addr_", "copysign_", "heaviside_", "gcd_", "lcm_"),
)


def rule_by_kind(op: str) -> Rule | None:
    """Returns the rule of an operator whose tags or schema are enough, else None."""
    if op.startswith("profiler."):
        return allocate_outputs
    operator = overload(op)
    if operator is None:
        return None
    packet, _, name = op.rpartition(".")
    plain = packet not in COMPOSITE and name not in SCALAR_FIRST
    pointwise = torch.Tag.pointwise in operator.tags and plain
    return allocate_outputs if pointwise or _is_view(operator) else None


def _is_view(operator: Any) -> bool:
    """Returns True if every result is a view of an argument."""
    returns = operator._schema.returns
    return bool(returns) and all(
        part.alias_info is not None and not part.alias_info.is_write for part in returns
    )


def _filled(call: OpCall) -> AllocationPlan:
    """Plans a factory that fills a target; some fill a dense copy of one with gaps."""
    target: torch.Tensor = call.kwargs["out"]
    is_copied = call.op.split(".")[1] in _IN_STEPS and not target.is_contiguous()
    return temporary("elements without gaps", dense_bytes(target) * is_copied)


def _where(call: OpCall) -> AllocationPlan:
    """Plans casts of both choices to one dtype (native/TensorCompare.cpp).

    A condition or choice of the host, which is a single one, goes to the device.
    """
    condition, first, second = call.args
    device = call.outputs[0].device
    moved = 0 if condition.device == device else condition.nbytes
    dtype = torch.result_type(first, second)
    casts = {
        name: 0 if x.device == device and x.dtype == dtype else dense_bytes(x, dtype)
        for name, x in (("first choice", first), ("second choice", second))
    }
    return temporaries({**casts, "condition": moved}, allocate_outputs(call))


def _clamp(call: OpCall) -> AllocationPlan:
    """Plans a cast to the type that numbers as limits give (native/TensorCompare.cpp)."""
    x: torch.Tensor = call.args[0]
    out = call.kwargs.get("out", call.outputs[0] if call.outputs else x)
    cast = 0 if x.dtype == out.dtype else dense_bytes(x, out.dtype)
    return temporary("input, cast", cast, allocate_outputs(call))


def _real_of_complex(call: OpCall) -> AllocationPlan:
    """Plans the complex result, of which the real part is copied (native/UnaryOps.cpp).

    ``angle`` makes it before its own result.
    """
    x: torch.Tensor = call.args[0]
    result = dense_bytes(x) * x.dtype.is_complex
    if call.op.startswith("aten.angle"):
        return temporary("complex result", result, allocate_outputs(call))
    return (*allocate_outputs(call), *temporary("complex result", result))


def _power(call: OpCall) -> AllocationPlan:
    """Plans a cast of the base to the type that an exponent gives (native/Pow.cpp)."""
    base, exponent = call.args[:2]
    dtype = torch.result_type(base, exponent)
    cast = 0 if base.dtype == dtype else dense_bytes(base, dtype)
    return temporary("base, cast", cast, allocate_outputs(call))


def _power_of_scalar(call: OpCall) -> AllocationPlan:
    """Plans a tensor for the base, unless it is 1 (native/Pow.cpp)."""
    return (*allocate_outputs(call), *temporary("base", 0 if call.args[0] == 1 else 8))


def _fill(call: OpCall) -> AllocationPlan:
    """Plans a copy of a value in the memory that is filled (``fill_out`` in native/Fill.cpp)."""
    x, value = call.args
    same = x.untyped_storage()._cdata == value.untyped_storage()._cdata
    return temporary("value", value.nbytes if same else 0)


#: The tangent of a constant, and questions that autograd asks of a tangent.
_WITHOUT_MEMORY: Final = ("_efficientzerotensor", "is_same_size", "_has_same_storage_numel")
_LIMITED: Final = tuple(
    f"aten.{name}.{kind}"
    for name in ("clamp", "clamp_min", "clamp_max")
    for kind in ("default", "out")
)
TAKES_COMPLEX: Final = True
RULES: Final = MappingProxyType[str, Rule](
    {
        **{f"aten.{name}": allocate_outputs for name in (*FACTORIES, *IN_PLACE, *UNTAGGED)},
        **{f"aten.{name}": _filled for name in INTO_TARGETS},
        **{f"aten.{name}.default": lambda _: () for name in _WITHOUT_MEMORY},
        **{f"aten.{name}": _real_of_complex for name in ("abs", "abs.out", "angle", "angle.out")},
        "aten.pow.Tensor_Scalar": _power,
        "aten.pow.Tensor_Scalar_out": _power,
        "aten.pow.Scalar": _power_of_scalar,
        "aten.pow.Scalar_out": _power_of_scalar,
        "aten.where.self": _where,
        **dict.fromkeys(_LIMITED, _clamp),
        "aten._local_scalar_dense.default": allocate_outputs,  # a read of the host
        "aten.fill_.Tensor": _fill,
        "aten.max.other": allocate_outputs,
        "aten.min.other": allocate_outputs,
    }
)
