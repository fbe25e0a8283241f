"""Arguments of a dispatched operator: by position as far as they go, then by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..op_plan import AllocationPlan, OpCall

#: A rule that may not know: None.
AttentionRule = Callable[[OpCall], AllocationPlan | None]


def argument(call: OpCall, position: int | None, name: str, default: Any = None) -> Any:
    """The argument of that position (none: by name alone) and name; its default where left out."""
    if position is not None and position < len(call.args):
        return call.args[position]
    return call.kwargs.get(name, default)
