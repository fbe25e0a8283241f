"""What operators allocate on CUDA beyond what a dispatcher sees, by the operator's name."""

from __future__ import annotations

from ..op_plan import AllocationPlan, OpCall

__all__ = ["plan"]


def plan(call: OpCall) -> AllocationPlan | None:
    """What happens to memory while this operator runs; nothing where that is not known."""
    from .registry import (
        rule_of,  # only now: attention has rules of its own, made of parts of these
    )

    rule = rule_of(call)
    return None if rule is None else rule(call)
