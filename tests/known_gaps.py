"""Held-out workloads without an answer: at first, and still."""

from types import MappingProxyType
from typing import NamedTuple

#: As it was when the recordings were first replayed. Nothing is ever added or taken away here.
AT_FIRST = MappingProxyType(
    {
        "local_attention": "`not enforced (no model of aten.unfold_backward.default)`; the numbers"
        " beside it were right",
        "top_k_attention": "ended in an `IndexError`: a scatter in place was taken for one that"
        " returns a tensor",
        "encoder_decoder": "`Tensor.__bool__` refused: `nn.Transformer` compares its mask, with"
        " values, to the causal one",
    }
)


class Gap(NamedTuple):
    problem: str
    """How what is told begins."""
    why: str


GAPS = MappingProxyType(
    {
        "top_k_attention": Gap(
            "no model of aten.topk.default",
            "no model of `topk` over several blocks; said so, and `not enforced`",
        ),
        "local_attention": Gap(
            "no model of aten.unfold_backward.default",
            "no model of `aten.unfold_backward`; said so, and `not enforced`",
        ),
        "encoder_decoder": Gap(
            "Tensor.__bool__ needs the values of a tensor",
            "`nn.Transformer` looks whether its mask is the causal one, by value; refused",
        ),
    }
)
