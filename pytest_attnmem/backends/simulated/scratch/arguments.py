"""An operator's arguments by their names."""

from __future__ import annotations

from typing import Any

import torch

from ..op_plan import OpCall


def overload(op: str) -> Any:
    """The operator of that name, ``aten.mm.default`` say, or nothing."""
    namespace, packet, name = op.split(".")
    return getattr(getattr(getattr(torch.ops, namespace), packet, None), name, None)


def argument(call: OpCall, name: str) -> Any:
    """What was passed by that name or in its place, or the default; nothing where there is none."""
    if name in call.kwargs:
        return call.kwargs[name]
    operator = overload(call.op)
    for place, expected in enumerate(operator._schema.arguments):
        if expected.name == name:
            passed = place < len(call.args) and not expected.kwarg_only
            return call.args[place] if passed else expected.default_value
    return None
