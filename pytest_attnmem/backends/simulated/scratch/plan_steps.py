"""Words to write a plan in."""

from __future__ import annotations

from ..op_plan import Call, Free, Output, Plan, Temporary, Workspace

CUBLAS = Workspace("cublas")


def born(call: Call, *order: int) -> Plan:
    """Outputs in this order, all as they are returned unless told; none where they existed."""
    count = len(call.outputs)
    return tuple(Output(index) for index in order or range(count) if index < count)


def while_held(name: str, nbytes: int, *inner: Plan) -> Plan:
    """A temporary that lives as long as what is inside."""
    steps = tuple(step for plan in inner for step in plan)
    return (Temporary(name, nbytes), *steps, Free(name)) if nbytes else steps


def outputs_alone(call: Call) -> Plan:
    """The rule of an operator that allocates what it returns and nothing else."""
    return born(call)
