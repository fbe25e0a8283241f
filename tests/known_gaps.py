"""Held-out workloads without an answer: in the first run, and now."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

#: The result of the first replay of the recordings. Entries are never added or removed.
AT_FIRST = MappingProxyType(
    {
        "local_attention": "`not enforced (no model of aten.unfold_backward.default)`; the numbers"
        " reported with it were right",
        "top_k_attention": "`IndexError`: the simulation took a scatter in place for a scatter that"
        " returns a tensor",
        "encoder_decoder": "`Tensor.__bool__` was refused: `nn.Transformer` compares its mask with"
        " the causal mask, by value",
    }
)


class Gap(NamedTuple):
    problem: str
    """The start of the reason that is reported."""
    why: str


#: Workloads without an answer at present: none.
GAPS: Mapping[str, Gap] = MappingProxyType({})
#: Workloads recorded on a device whose last backward step had not freed its memory when the program
#: went on, and the bytes that they reserve beyond what null does where each pass is waited for.
UNSETTLED: Mapping[str, int] = MappingProxyType({"vision_autocast": 2 << 20})
