"""Operators over lists of tensors, as optimizers use them (native/cuda/MultiTensorApply.cuh)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from ..op_plan import AllocationPlan, OpCall, Rule
from .plan_steps import allocate_outputs, outputs_alone, temporary
from .tensor_bytes import wider

_CHUNK: Final = 65_536  # elements of a tensor that a block takes

_UNARY: Final = (
    *("abs", "acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1"),
    *("floor", "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round"),
    *("rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)
_OTHER: Final = (
    *("add", "sub", "mul", "div", "pow", "clamp_max", "clamp_min", "maximum", "minimum"),
    *("lerp", "addcmul", "addcdiv"),
)
FUSED: Final = (
    *("_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"),
    *("_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"),
)


def _norm(call: OpCall) -> AllocationPlan | None:
    """A partial sum for every chunk of every tensor, as many as the longest has (ForeachReduceOp).

    Where types or layouts differ, or the order is none of these, each tensor has a norm of its own.
    """
    given = call.args[0]
    order = call.args[1] if len(call.args) > 1 else 2
    alike = all(t.dtype == given[0].dtype and t.is_contiguous() for t in given)
    if not alike or order not in (1, 2, float("inf")) or any(not t.numel() for t in given):
        return None
    chunks = max(-(-t.numel() // _CHUNK) for t in given)
    partial = len(given) * chunks * wider(given[0].dtype).itemsize
    return temporary("partial results", partial, allocate_outputs(call))


RULES: Final = MappingProxyType[str, Rule](
    {
        **{
            f"aten._foreach_{name}{suffix}": outputs_alone
            for name in (*_UNARY, *_OTHER)
            for suffix in ("", "_")
        },
        "aten._foreach_zero_": outputs_alone,
        "aten._foreach_copy_": outputs_alone,
        "aten._foreach_norm": _norm,
        **{f"aten.{name}": outputs_alone for name in FUSED},
    }
)
