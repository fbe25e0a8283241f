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
        *("_efficient_attention_backward", "_index_put_impl_", "_new_zeros_with_same_feature_meta"),
        *("_unsafe_index_put", "_foreach_add.Tensor", "_foreach_add_.Tensor", "allclose", "copy"),
        *("as_strided_scatter", "diagonal_scatter", "select_scatter", "slice_scatter"),
        *("binary_cross_entropy_with_logits", "cummaxmin_backward", "fill.Tensor", "fill_.Tensor"),
        *("ldexp.Tensor", "ldexp_", "ldexp.out", "rrelu_with_noise_backward", "slice_inverse"),
        *("soft_margin_loss_backward", "xlogy.OutTensor"),
    )
)
#: They handle lists tensor by tensor, some of them on the host.
_OF_LISTS: Final = ("aten::_foreach_", "aten::_fused_")


def may_be_unknown(op: str) -> bool:
    """Returns True if some calls of an operator have memory that nobody knows."""
    return op in _OPERATORS or op.startswith(_OF_LISTS)


def is_unknown(op: str, tensors: tuple[Placed, ...]) -> bool:
    """Returns True if nobody knows the memory of a call with tensors of both devices."""
    if op in _OPERATORS:
        return True
    return op.startswith(_OF_LISTS) and any(each.on_host and each.place >= 0 for each in tensors)
