"""The rules against the requests to PyTorch's own allocator on the null device."""

import pytest
from recordings import VERSIONS, read
from torch._subclasses import FakeTensorMode

from pytest_attnmem.backends.simulated.operators.op_rules import plan
from pytest_attnmem.backends.simulated.scratch.op_plan import OpCall
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.torch_releases import KNOWN

from .described import arguments, text
from .plans import has_rule, plans

#: The number of recorded calls that no rule knows. For the one that was held out, the rules first
#: gave a wrong plan: the gradient of a bias whose weight is frozen, with more than 65 536 rows.
UNKNOWN = {
    "operators": 3,
    "operators-from-data": 0,
    "operators-grouped": 0,
    "operators-held-out": 1,
    "operators-layers": 0,
    "operators-layouts": 22,
    "operators-norms": 30,
    "operators-others": 0,
}


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8 is now deprecated")
@pytest.mark.parametrize("name", UNKNOWN)
def test_the_plans_are_the_recorded_traces(few, name):
    wrong, unknown = [], set()
    devices = read(name)["devices"]
    calls = [*zip(*(read(name, version)["calls"] for version in VERSIONS), strict=True)]
    chosen = few(calls, lambda rows: rows[0]["op"])
    for rows in chosen:
        assert len({text(row) for row in rows}) == 1
        if not has_rule(rows[0]["op"]):
            continue
        traces = {
            (version, device): trace
            for version, row in zip(VERSIONS, rows, strict=True)
            for device, trace in (row.get("traces") or dict.fromkeys(devices, row["trace"])).items()
        }
        on = dict.fromkeys(device for _, device in traces)
        for where, found in plans(rows[0], on, VERSIONS).items():
            if found is None:
                unknown.add(text(rows[0]))
            elif found != traces[where]:
                wrong.append(f"{text(rows[0])} on {where}\n  {traces[where]}\n  {found}")
    assert wrong == []
    if chosen == calls:
        assert len(unknown) == UNKNOWN[name], unknown


@pytest.mark.parametrize(
    "op",
    [
        "aten.linalg_lstsq.default",
        "aten.unique_dim.default",  # a merge sort
        "aten.logsumexp.default",  # C++ code composes it
        "aten.ldexp_.default",  # tagged pointwise, but of two kernels
        "aten.sum.out",  # the result may have any layout
        "aten.no_such_operator.default",
    ],
)
def test_an_operator_without_a_rule_has_no_plan(op):
    assert plan(OpCall(op, (), {}, (), find_profile("H100"), False, KNOWN[0])) is None


@pytest.mark.parametrize(
    ("device", "op", "row"),
    [
        # CUB's storage is known for builds for CUDA 13, which have no kernels for these devices.
        ("V100", "aten.cumsum.default", ["float32[5000]", 0]),
        ("GTX 1080", "aten.sort.default", ["float32[5000]"]),
        ("H100", "aten.mm.default", ["complex64[5, 5]", "complex64[5, 5]"]),
        ("H100", "aten.mm.default", ["float32[5, 5]", "bfloat16[5, 5]"]),  # CUDA refuses it
        ("H100", "aten.topk.default", ["float32[8, 20000]", 5000]),
        # CUB sorts these by an algorithm whose storage depends on occupancy.
        ("A100-80GB", "aten.sort.default", ["float16[5000]"]),
        # The result does not tell how many elements each of two masks has.
        ("H100", "aten.index.Tensor", ["float32[5, 5]", ["bool[5]", "bool[5]"]]),
        ("H100", "aten.index_put_.default", ["float32[5, 5]", ["bool[5]"], "float32[5]", False]),
        ("V100", "aten.nonzero.default", ["bool[5]"]),
        ("V100", "aten.repeat_interleave.Tensor", ["int64[5]"]),
        ("H100", "aten.bincount.default", ["int64[5](2)"]),
        ("H100", "aten.allclose.default", ["int64[5]", "int64[5]"]),
        ("H100", "aten.native_dropout.default", ["float32[5]", 0.0, True]),
    ],
)
def test_a_call_that_its_rule_does_not_know_has_no_plan(device, op, row):
    with FakeTensorMode():
        args, _ = arguments({"op": op, "args": row}, "cpu")
        outputs = tuple(args[:1])
        profile = find_profile(device)
        assert plan(OpCall(op, tuple(args), {}, outputs, profile, False, KNOWN[0])) is None
