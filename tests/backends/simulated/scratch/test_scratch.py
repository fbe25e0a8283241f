"""The rules against the requests to PyTorch's own allocator on the null device."""

import json
from pathlib import Path

import pytest
from torch._subclasses import FakeTensorMode

from pytest_attnmem.backends.simulated.op_plan import OpCall
from pytest_attnmem.backends.simulated.op_rules import plan
from pytest_attnmem.profiles import find_profile

from .described import arguments, text
from .plans import plans

DATA = Path(__file__).parents[3] / "data" / "cuda"

#: The number of recorded calls that no rule knows. For the one that was held out, the rules first
#: gave a wrong plan: the gradient of a bias whose weight is frozen, with more than 65 536 rows.
UNKNOWN = {"operators": 3, "operators-held-out": 1}


@pytest.mark.parametrize("name", UNKNOWN)
def test_the_plans_are_the_recorded_traces(name):
    wrong, unknown = [], set()
    recorded_set = json.loads((DATA / f"{name}.json").read_text("utf-8"))
    for row in recorded_set["calls"]:
        traces = row.get("traces") or dict.fromkeys(recorded_set["devices"], row["trace"])
        for device, found in plans(row, traces).items():
            if found is None:
                unknown.add(text(row))
            elif found != traces[device]:
                wrong.append(f"{text(row)} on {device}\n  {traces[device]}\n  {found}")
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
def test_an_operator_without_a_rule_has_no_plan(op):
    assert plan(OpCall(op, (), {}, (), find_profile("H100"), False)) is None


@pytest.mark.parametrize(
    ("device", "op", "row"),
    [
        # CUB's storage is known for builds for CUDA 13, which have no kernels for these devices.
        ("V100", "aten.cumsum.default", ["float32[5000]", 0]),
        ("GTX 1080", "aten.sort.default", ["float32[5000]"]),
        ("H100", "aten.mm.default", ["complex64[5, 5]", "complex64[5, 5]"]),
        ("H100", "aten.topk.default", ["float32[8, 20000]", 5]),
        # CUB sorts these by an algorithm whose storage depends on occupancy.
        ("A100-80GB", "aten.sort.default", ["float16[5000]"]),
        ("H100", "aten.index.Tensor", ["float32[5]", ["bool[5]"]]),
        ("H100", "aten.native_dropout.default", ["float32[5]", 0.0, True]),
    ],
)
def test_a_call_that_its_rule_does_not_know_has_no_plan(device, op, row):
    with FakeTensorMode():
        args, _ = arguments({"args": row}, "cpu")
        outputs = tuple(args[:1])
        assert plan(OpCall(op, tuple(args), {}, outputs, find_profile(device), False)) is None
