"""Rules for operators over lists of tensors, for optimizers (native/cuda/MultiTensorApply.cuh)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from . import pointwise, reduction_ops
from .op_plan import AllocationPlan, Free, OpCall, Output, Rule, Step, Temporary, argument
from .plan_parts import accumulate_type, allocate_outputs, temporary
from .strides import dense_without_overlap

if TYPE_CHECKING:
    import torch

_CHUNK: Final = 65_536  # elements of a tensor for one block
_INT64: Final = 8
_FAST: Final = (0, 1, 2, float("inf"))  # orders of norms
_FIRST_CHUNKS: Final = (2, 15)  # has a table of the first chunk of each tensor

_UNARY: Final = (
    *("acos", "asin", "atan", "ceil", "cos", "cosh", "erf", "erfc", "exp", "expm1"),
    *("floor", "frac", "lgamma", "log", "log10", "log1p", "log2", "neg", "reciprocal", "round"),
    *("rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
)
_OTHER: Final = (
    *("add", "sub", "mul", "div", "pow", "clamp_max", "clamp_min", "maximum", "minimum"),
    *("lerp", "addcmul", "addcdiv"),
)
#: The rules of the operators that work on one tensor after the other, among others.
_SINGLE: Final[Mapping[str, Rule]] = MappingProxyType({**pointwise.RULES, **reduction_ops.RULES})
FUSED: Final = (
    *("_fused_adam_", "_fused_adamw_", "_fused_sgd_", "_fused_adagrad_"),
    *("_amp_foreach_non_finite_check_and_unscale_", "_amp_update_scale_"),
)


def _norm(call: OpCall) -> AllocationPlan | None:
    """Plans norms (``ForeachReduceOp.cu``): those of another order are computed one by one.

    So are those of tensors that differ in dtype or have gaps.
    """
    given = call.args[0]
    order = argument(call, "ord")
    if any(t.is_complex() for t in given):
        return None
    if _alike(given) and order in _FAST:
        return _by_chunks(call, accumulate_type(call.outputs[0].dtype))
    rest, dtype = (order, None, False), argument(call, "dtype")
    return _one_by_one("aten.linalg_vector_norm", call, *rest, dtype=dtype)


def _max(call: OpCall) -> AllocationPlan | None:
    """Plans the largest elements; those of tensors that differ are taken one by one."""
    given = call.args[0]
    if _alike(given):
        return _by_chunks(call, given[0].dtype)
    return _one_by_one("aten.max", call)


def _alike(given: Sequence[Any]) -> bool:
    return all(
        t.dtype == given[0].dtype and dense_without_overlap(t.shape, t.stride()) for t in given
    )


def _one_by_one(op: str, call: OpCall, *rest: Any, **kwargs: Any) -> AllocationPlan | None:
    """Plans a call of an operator for each tensor, with the same other arguments."""
    steps: list[Step] = []
    for place, (given, made) in enumerate(zip(call.args[0], call.outputs, strict=True)):
        args = (given, *rest)
        single = replace(call, op=f"{op}.default", args=args, kwargs=kwargs, outputs=(made,))
        plan = _SINGLE[op](single)
        if plan is None:
            return None
        steps += (replace(s, index=place) if isinstance(s, Output) else s for s in plan)
    return tuple(steps)


def _by_chunks(call: OpCall, dtype: torch.dtype) -> AllocationPlan:
    """Plans a partial result of that dtype for each chunk of each tensor.

    From 2.15 on a table has the first chunk of each tensor; before, every tensor has as many chunks
    as the longest. Empty tensors have no chunk: their results come last, beside results that none
    takes.
    """
    given = call.args[0]
    chunks = [-(-t.numel() // _CHUNK) for t in given]
    filled = sum(map(bool, chunks))
    table = call.version >= _FIRST_CHUNKS
    partials = sum(chunks) if table else len(given) * max(chunks)
    results = temporary("partial results", partials * dtype.itemsize, _results(call, chunks))
    return temporary("first chunks", _INT64 * (filled + 1), results) if table else results


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
        return allocate_outputs(call)
    steps = [(Output(place), *temporary(f"base {place}", 8)) for place in range(len(given))]
    return tuple(chain.from_iterable(steps))


RULES: Final = MappingProxyType[str, Rule](
    {
        **{
            f"aten._foreach_{name}{suffix}": allocate_outputs
            for name in (*_UNARY, *_OTHER)
            for suffix in ("", "_")
        },
        "aten._foreach_abs": partial(_one_by_one, "aten.abs"),  # of complex tensors
        "aten._foreach_abs_": allocate_outputs,
        "aten._foreach_pow.ScalarAndTensor": _power_of_scalar,
        "aten._foreach_zero_": allocate_outputs,
        "aten._foreach_copy_": allocate_outputs,
        "aten._foreach_clone": allocate_outputs,
        "aten._foreach_norm": _norm,
        "aten._foreach_max": _max,
        **{f"aten.{name}": allocate_outputs for name in FUSED},
    }
)
