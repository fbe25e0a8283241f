"""The arguments of an operator call, by name."""

from __future__ import annotations

from typing import Any

import torch

from .op_plan import OpCall


def overload(op: str) -> Any:
    """Returns the operator of that name, such as ``aten.mm.default``; None if there is none."""
    namespace, packet, name = op.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet, None), name, None)


def argument(call: OpCall, name: str) -> Any:
    """Returns the argument of that name: passed by name, by position, or the default.

    Returns None if the operator has no argument of that name.
    """
    if name in call.kwargs:
        return call.kwargs[name]
    for position, expected in enumerate(overload(call.op)._schema.arguments):
        if expected.name == name:
            passed = position < len(call.args) and not expected.kwarg_only
            return call.args[position] if passed else expected.default_value
    return None


def writes_into_targets(op: str) -> bool:
    """Returns True for an operator that is given tensors for its results, ``out=``."""
    operator = overload(op)
    return operator is not None and any(one.is_out for one in operator._schema.arguments)
