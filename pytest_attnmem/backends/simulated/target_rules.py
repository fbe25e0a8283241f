"""Rules for operators that write into a given tensor, ``out=``, from those that make a result.

Some kernels write into the target, with the scratch that they take beside a result. Others make a
result, and copy it. Which do, recordings tell: ``opinfo-writes.json`` of ``tests/data/cuda``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import torch

from .op_arguments import overload
from .op_plan import AllocationPlan, OpCall, Output, Rule, Step
from .scratch.plan_steps import temporary

_OF_WRITTEN: Final = """
    addbmm addmv addr mv cat stack gather take index_select index_add index_copy index_reduce
    scatter scatter_add scatter_reduce tril triu where floor_divide renorm linalg_cross
    gelu hardshrink softshrink softplus avg_pool2d avg_pool3d bernoulli topk
    linalg_vector_norm nansum mean max min aminmax std var logsumexp cummax cummin
    sort kthvalue mode
"""
#: Operators whose kernels write into the target.
_WRITTEN: Final = frozenset(_OF_WRITTEN.split())
#: Likewise; the dtype of the result is not that of the first tensor.
_OF_ANOTHER_DTYPE: Final = frozenset({"all", "any", "bucketize", "hash_tensor", "complex", "polar"})
_OF_COPIED: Final = """
    dot vdot histc diag_embed slice_scatter alias_copy as_strided_copy diagonal_copy expand_copy
    permute_copy squeeze_copy t_copy transpose_copy unfold_copy unsqueeze_copy view_copy
"""
#: Operators that make a result, and copy it into the target.
_COPIED: Final = frozenset(_OF_COPIED.split())
#: Operators that take more if they resize the target.
_OF_ITS_SIZE: Final = frozenset({"mv"})


def into_targets(call: OpCall, rule_of: Callable[[OpCall], Rule | None]) -> AllocationPlan | None:
    """Returns what a call with ``out=`` allocates and frees on CUDA; None if nobody knows.

    That of targets with gaps, or of another dtype than the result's, is not known.
    """
    name = call.op.split(".")[1]
    copied = name in _COPIED
    if call.deterministic or not (copied or name in _WRITTEN or name in _OF_ANOTHER_DTYPE):
        return None
    names = targets_of(call.op)
    targets = tuple([call.kwargs[each] for each in names])
    maker = _maker(call.op) if targets else None
    if maker is None or not _are_plain(targets, call, any_dtype=name in _OF_ANOTHER_DTYPE):
        return None
    others = {key: value for key, value in call.kwargs.items() if key not in names}
    made = replace(call, op=maker, kwargs=others, outputs=targets)
    rule = rule_of(made)
    steps = None if rule is None else rule(made)
    if steps is None or (call.resized and not _resizes_first(name, steps, len(targets))):
        return None
    scratch = tuple([step for step in steps if type(step) is not Output])
    if not copied:
        return scratch
    return temporary("result", targets[0].nbytes) if not scratch else None


def targets_of(op: str) -> tuple[str, ...]:
    """Returns the names of the arguments of an operator that are given for its results."""
    operator = overload(op)
    if operator is None:
        return ()
    return tuple([argument.name for argument in operator._schema.arguments if argument.is_out])


def _maker(op: str) -> str | None:
    """Returns the operator that makes what ``op`` writes."""
    operator = overload(op)
    read, packet = _described(operator, targets_of(op)), operator.overloadpacket
    for name in packet.overloads():
        other = getattr(packet, name)
        if not other._schema.is_mutable and _described(other) == read:
            return f"{op.rpartition('.')[0]}.{name}"
    return None


def _described(operator: Any, without: tuple[str, ...] = ()) -> list[tuple[str, str]]:
    arguments = operator._schema.arguments
    return [(one.name, str(one.type)) for one in arguments if one.name not in without]


def _are_plain(targets: tuple[Any, ...], call: OpCall, *, any_dtype: bool) -> bool:
    """Returns True if a call without targets would make such tensors, and it reads no target."""
    read = [*_tensors(call.args)]
    if not all(isinstance(target, torch.Tensor) for target in targets) or not read:
        return False
    memory = {each.untyped_storage()._cdata for each in read}
    written = {each.untyped_storage()._cdata for each in targets}
    second = targets[0].dtype if call.op.startswith("aten.aminmax.") else torch.int64  # of indices
    return (
        all(each.is_contiguous() and each.device == targets[0].device for each in (*targets, *read))
        and len(written) == len(targets)
        and memory.isdisjoint(written)
        and (any_dtype or all(each.dtype == targets[0].dtype for each in _numbers(read)))
        and all(each.dtype == second for each in targets[1:])
    )


def _numbers(tensors: list[Any]) -> list[Any]:
    """Returns the tensors but indices and masks, or all if there are no others."""
    return [each for each in tensors if each.dtype.is_floating_point] or tensors


def _tensors(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from _tensors(value)


def _resizes_first(name: str, steps: tuple[Step, ...], count: int) -> bool:
    """Returns True if a call resizes its targets before it allocates anything else."""
    if name in _COPIED or name in _OF_ITS_SIZE:
        return False
    return all(type(step) is Output and step.nbytes is None for step in steps[:count])
