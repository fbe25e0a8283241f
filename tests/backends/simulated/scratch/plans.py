"""The plans of calls as text, in the words of the recordings (see ``described.py``)."""

from torch._subclasses import FakeTensorMode

from pytest_attnmem.backends.simulated.op_plan import Free, OpCall, Output, Temporary, Workspace
from pytest_attnmem.backends.simulated.op_rules import plan
from pytest_attnmem.profiles import find_profile

from .described import arguments, new_storages, operator


def plans(row, devices):
    """Returns the trace of a call by device, ``{"H100": "out0:24 t0:512 -t0"}``.

    A trace is None if no rule knows the call. ``row`` is a call as ``operator_calls.call`` writes
    it: ``{"op": "aten.neg.default", "args": ["float32[2, 3]"]}``, perhaps with ``kwargs``,
    ``deterministic`` and ``cold``, for workspaces that are not yet there.
    """
    found = {}
    with FakeTensorMode():
        args, kwargs = arguments(row, "cpu")
        outputs = new_storages([args, kwargs], operator(row["op"])(*args, **kwargs))
        for device in devices:
            profile, mode = find_profile(device), row.get("deterministic", False)
            steps = plan(OpCall(row["op"], tuple(args), kwargs, outputs, profile, mode))
            known = steps is not None
            found[device] = trace(steps, outputs, profile, row.get("cold")) if known else None
    return found


def trace(steps, outputs, profile, cold):
    """Returns a plan as text."""
    words, live, count = [], {}, 0
    for step in steps:
        if isinstance(step, Output):
            own = outputs[step.index].untyped_storage().nbytes()
            size = own if step.nbytes is None else step.nbytes
            words += [f"out{step.index}:{size}"] * bool(size)
        elif isinstance(step, Temporary):
            assert step.name not in live
            if step.nbytes:
                live[step.name] = f"t{count}"
                words.append(f"t{count}:{step.nbytes}")
                count += 1
        elif isinstance(step, Free):
            words += [f"-{live.pop(step.name)}"] if step.name in live else []
        elif isinstance(step, Workspace) and cold:
            hopper = profile.compute_capability >= (9, 0)
            words.append(f"kept:{33_554_432 if hopper else 8_519_680}")
            cold = False
    return " ".join(words + [f"-{name}" for name in reversed(live.values())])
