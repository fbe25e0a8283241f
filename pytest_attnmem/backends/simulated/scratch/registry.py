"""Every rule, by the name of an operator or of all its overloads."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import torch

from .. import attention
from ..op_plan import OpCall, Rule
from . import (
    copying,
    embedding,
    foreach,
    indexing,
    losses,
    matmul,
    normalization,
    pointwise,
    reduction_ops,
    scan,
    softmax,
    sorting,
)

#: Rules for tensors of any type.
MOVING: Final = MappingProxyType[str, Rule]({**pointwise.RULES, **copying.RULES})

#: Rules for real numbers; complex ones take other ways, not looked into.
COMPUTING: Final = MappingProxyType[str, Rule](
    {
        **matmul.RULES,
        **softmax.RULES,
        **normalization.RULES,
        **reduction_ops.RULES,
        **scan.RULES,
        **sorting.RULES,
        **embedding.RULES,
        **indexing.RULES,
        **losses.RULES,
        **foreach.RULES,
        **attention.RULES,
    }
)


def rule_of(call: OpCall) -> Rule | None:
    """The operator's own rule, else that of its packet, else what its kind says.

    A packet's rule is not that of its ``out=`` overloads, whose results may have any layout.
    """
    packet, _, overload = call.op.rpartition(".")
    names = (call.op,) if "out" in overload.split("_") else (call.op, packet)
    for name in names:
        if name in COMPUTING:
            return None if _complex(call) else COMPUTING[name]
        if name in MOVING:
            return MOVING[name]
    return pointwise.by_kind(call.op)


def _complex(call: OpCall) -> bool:
    return any(isinstance(x, torch.Tensor) and x.is_complex() for x in call.args)
