"""The tables against what PyTorch's own allocator was asked for on the null device."""

import json
from pathlib import Path

import pytest
from torch._subclasses import FakeTensorMode

from pytest_attnmem.backends.simulated.op_plan import Free, OpCall, Output, Temporary, Workspace
from pytest_attnmem.backends.simulated.scratch import plan
from pytest_attnmem.profiles import find_profile

from .described import arguments, new_storages, operator, text

DATA = Path(__file__).parents[3] / "data" / "cuda"

#: Calls of the recorded sets that the tables rightly say nothing about. Of the one held out, they
#: foretold something else at first: a bias whose weight is frozen, of more than 65 536 rows.
UNKNOWN = {"operators": 3, "operators-held-out": 1}


def planned(row, devices):
    """For every device that ran the call, what was recorded and what the tables foretell."""
    args, kwargs = arguments(row, "cpu")
    outputs = new_storages([args, kwargs], operator(row["op"])(*args, **kwargs))
    traces = row.get("traces") or dict.fromkeys(devices, row["trace"])
    for device, recorded in traces.items():
        profile, mode = find_profile(device), row.get("deterministic", False)
        steps = plan(OpCall(row["op"], tuple(args), kwargs, outputs, profile, mode))
        foretold = None if steps is None else trace(steps, outputs, profile, row.get("cold"))
        yield device, recorded, foretold


def trace(steps, outputs, profile, cold):
    """A plan, in the words of the recordings."""
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


@pytest.mark.parametrize("name", UNKNOWN)
def test_the_tables_foretell_what_was_recorded(name):
    wrong, unknown = [], set()
    recorded_set = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    with FakeTensorMode():
        for row in recorded_set["calls"]:
            for device, recorded, foretold in planned(row, recorded_set["devices"]):
                if foretold is None:
                    unknown.add(text(row))
                elif foretold != recorded:
                    wrong.append(f"{text(row)} on {device}\n  {recorded}\n  {foretold}")
    assert wrong == []
    assert len(unknown) == UNKNOWN[name], unknown


@pytest.mark.parametrize(
    "op",
    [
        "aten.convolution.default",  # cuDNN knows its workspaces
        "aten._fft_c2c.default",
        "aten.nonzero.default",
        "aten.equal.default",  # reads
        "aten.sum.out",  # the result may have any layout
        "aten.no_such_operator.default",
    ],
)
def test_of_what_is_not_known_nothing_is_said(op):
    assert plan(OpCall(op, (), {}, (), find_profile("H100"), False)) is None


@pytest.mark.parametrize(
    ("device", "op", "row"),
    [
        # What CUB takes is known of the builds for CUDA 13, which have no kernels for these.
        ("V100", "aten.cumsum.default", ["float32[5000]", 0]),
        ("GTX 1080", "aten.sort.default", ["float32[5000]"]),
        ("H100", "aten.mm.default", ["complex64[5, 5]", "complex64[5, 5]"]),
        ("H100", "aten.topk.default", ["float32[8, 20000]", 5]),
        # Sorted by another way, whose storage depends on occupancy.
        ("A100-80GB", "aten.sort.default", ["float16[5000]"]),
        ("H100", "aten.index.Tensor", ["float32[5]", ["bool[5]"]]),
        ("H100", "aten.native_dropout.default", ["float32[5]", 0.0, True]),
    ],
)
def test_what_depends_on_what_is_not_known_is_not_guessed(device, op, row):
    with FakeTensorMode():
        args, _ = arguments({"args": row}, "cpu")
        outputs = tuple(args[:1])
        assert plan(OpCall(op, tuple(args), {}, outputs, find_profile(device), False)) is None
