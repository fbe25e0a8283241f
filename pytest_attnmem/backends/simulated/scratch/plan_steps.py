"""Words to write a plan in."""

from __future__ import annotations

from ..op_plan import AllocationPlan, Free, OpCall, Output, Temporary, Workspace

CUBLAS = Workspace("cublas")


def allocate_outputs(call: OpCall, *order: int) -> AllocationPlan:
    """Outputs in this order, all as they are returned unless told; none where they existed."""
    count = len(call.outputs)
    return tuple(Output(index) for index in order or range(count) if index < count)


def temporary(name: str, nbytes: int, *inner: AllocationPlan) -> AllocationPlan:
    """A temporary that lives as long as what is inside."""
    steps = tuple(step for plan in inner for step in plan)
    return (Temporary(name, nbytes), *steps, Free(name)) if nbytes else steps


def outputs_alone(call: OpCall) -> AllocationPlan:
    """The rule of an operator that allocates what it returns and nothing else."""
    return allocate_outputs(call)
