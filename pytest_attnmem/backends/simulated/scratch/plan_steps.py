"""The building blocks of allocation plans."""

from __future__ import annotations

from .. import workspaces
from ..op_plan import AllocationPlan, Free, OpCall, Output, Temporary, Workspace

#: The workspace that a product takes from either library.
CUBLAS = Workspace(workspaces.CUBLAS)
CUBLASLT = Workspace(workspaces.CUBLASLT)


def allocate_outputs(call: OpCall, *order: int) -> AllocationPlan:
    """Returns the outputs that are new, in the given order or in that of the results."""
    count = len(call.outputs)
    return tuple(Output(index) for index in order or range(count) if index < count)


def temporary(name: str, nbytes: int, *inner: AllocationPlan) -> AllocationPlan:
    """Returns the inner plans with a temporary that is alive around them."""
    steps = tuple(step for plan in inner for step in plan)
    return (Temporary(name, nbytes), *steps, Free(name)) if nbytes else steps


def outputs_only(call: OpCall) -> AllocationPlan:
    """Plans an operator that allocates its outputs and nothing else."""
    return allocate_outputs(call)
