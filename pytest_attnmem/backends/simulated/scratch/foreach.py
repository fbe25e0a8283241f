"""Rules for operators over lists of tensors, for optimizers (native/cuda/MultiTensorApply.cuh)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from types import MappingProxyType
from typing import Final

from ..op_plan import AllocationPlan, Free, OpCall, Output, Rule, Temporary
from .plan_steps import outputs_only, temporary
from .strides import dense_without_overlap
from .tensor_bytes import accumulate_type

_CHUNK: Final = 65_536  # elements of a tensor for one block
_INT64: Final = 8
_FIRST_CHUNKS: Final = (2, 15)  # has a table of the first chunk of each tensor

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
    """Plans a partial sum for each chunk of each tensor.

    From 2.15 on a table has the first chunk of each tensor; before, every tensor has as many chunks
    as the longest. Empty tensors have no chunk: their results come last, beside results that none
    takes.

    Source: ForeachReduceOp.cu. Tensors that differ in dtype or have gaps, and norms of another
    order, are computed one by one, which is not modelled.
    """
    given = call.args[0]
    order = call.args[1] if len(call.args) > 1 else 2
    alike = all(
        t.dtype == given[0].dtype and dense_without_overlap(t.shape, t.stride()) for t in given
    )
    if not alike or order not in (1, 2, float("inf")):
        return None
    chunks = [-(-t.numel() // _CHUNK) for t in given]
    filled = sum(map(bool, chunks))
    table = call.version >= _FIRST_CHUNKS
    partials = sum(chunks) if table else len(given) * max(chunks)
    nbytes = partials * accumulate_type(call.outputs[0].dtype).itemsize
    sums = temporary("partial results", nbytes, _results(call, chunks))
    return temporary("first chunks", _INT64 * (filled + 1), sums) if table else sums


def _results(call: OpCall, chunks: Sequence[int]) -> AllocationPlan:
    """Plans a result for each tensor, of which those with chunks take the first, and the others."""
    places = sorted(range(len(chunks)), key=lambda place: not chunks[place])
    filled = sum(map(bool, chunks))
    rest = [f"result {place}" for place in places[filled:]]
    nbytes = call.outputs[0].dtype.itemsize
    return (
        *map(Output, places[:filled]),
        *(Temporary(name, nbytes) for name in rest),
        *map(Output, places[filled:]),
        *map(Free, rest),
    )


def _power_of_scalar(call: OpCall) -> AllocationPlan:
    """Plans the results; without one kernel for all, each has a tensor of the base (Pow.cpp).

    Source: ForeachBinaryOpScalar.cu and ForeachUtils.h (``can_use_fast_route``).
    """
    base, given = call.args[:2]
    floats = all(t.dtype.is_floating_point for t in given)
    if base == 1 or (floats and all(dense_without_overlap(t.shape, t.stride()) for t in given)):
        return outputs_only(call)
    steps = [(Output(place), *temporary(f"base {place}", 8)) for place in range(len(given))]
    return tuple(chain.from_iterable(steps))


RULES: Final = MappingProxyType[str, Rule](
    {
        **{
            f"aten._foreach_{name}{suffix}": outputs_only
            for name in (*_UNARY, *_OTHER)
            for suffix in ("", "_")
        },
        "aten._foreach_pow.ScalarAndTensor": _power_of_scalar,
        "aten._foreach_zero_": outputs_only,
        "aten._foreach_copy_": outputs_only,
        "aten._foreach_norm": _norm,
        **{f"aten.{name}": outputs_only for name in FUSED},
    }
)
