"""Operators that take tensors of the host beside tensors of the device, with memory nobody knows.

CUDA runs such a call, but it copies a tensor, or runs other operators, than for tensors of one
device. The comparison of the null device with the simulation found them.
"""

from __future__ import annotations

from typing import Final

from .operands import Placed

_OPERATORS: Final = frozenset(
    f"aten::{name}"
    for name in (
        *("_efficient_attention_backward", "_new_zeros_with_same_feature_meta"),
        *("_foreach_add.Tensor", "_foreach_add_.Tensor", "allclose"),
        *("as_strided_scatter", "diagonal_scatter", "select_scatter", "slice_scatter"),
        *("binary_cross_entropy_with_logits", "cummaxmin_backward", "rrelu_with_noise_backward"),
        *("ldexp.Tensor", "ldexp_", "ldexp.out", "slice_inverse", "soft_margin_loss_backward"),
        *("xlogy.OutTensor", "bernoulli.out"),
    )
)
#: They move index tensors, as the simulation does, and values in another way.
_BY_INDEX: Final = frozenset({"aten::_index_put_impl_", "aten::_unsafe_index_put"})
#: They make a tensor like their first one, on the host.
_FILLS: Final = frozenset({"aten::fill.Tensor", "aten::fill_.Tensor"})
_FUSED: Final = "aten::_fused_"


def may_be_unknown(op: str) -> bool:
    """Returns True if some calls of an operator have memory that nobody knows."""
    return op in _OPERATORS | _FILLS | _BY_INDEX or op.startswith(_FUSED) or _makes_lists(op)


def is_unknown(op: str, tensors: tuple[Placed, ...]) -> bool:
    """Returns True if nobody knows the memory of a call with tensors of both devices."""
    if op in _OPERATORS:
        return True
    if op in _FILLS:
        return tensors[0].on_host
    if op in _BY_INDEX:
        return any(each.on_host and each.name == "values" for each in tensors)
    if op.startswith(_FUSED):  # their kernels read pointers that nobody checks
        return any(each.on_host and each.name != "lr" for each in tensors)
    return _makes_lists(op) and any(each.on_host and each.place >= 0 for each in tensors)


def _makes_lists(op: str) -> bool:
    """Returns True if an operator makes tensors for those of lists, some of them on the host."""
    return op.startswith("aten::_foreach_") and not op.partition(".")[0].endswith("_")
