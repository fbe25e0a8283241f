"""The rules for operators that read data, against PyTorch's own requests on the null device."""

from itertools import product

import pytest
from recordings import VERSIONS, read

from pytest_attnmem.backends.certification.described import new_storages, operator
from pytest_attnmem.backends.simulated.operators.op_rules import plan
from pytest_attnmem.backends.simulated.scratch.op_plan import OpCall
from pytest_attnmem.profiles import find_profile
from pytest_attnmem.torch_releases import minor_version

from .described import arguments, text
from .plans import has_rule, trace

NAME = "operators-from-data"


@pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8 is now deprecated")
def test_the_plans_are_the_recorded_traces(few):
    wrong, devices = [], read(NAME)["devices"]
    calls = zip(*(read(NAME, version)["calls"] for version in VERSIONS), strict=True)
    for rows in few(calls, lambda rows: rows[0]["op"]):
        assert len({text(row) for row in rows}) == 1
        if not has_rule(rows[0]["op"]):
            continue
        args, kwargs = arguments(rows[0], "cpu")
        outputs = new_storages([args, kwargs], operator(rows[0]["op"])(*args, **kwargs))
        for (version, row), device in product(zip(VERSIONS, rows, strict=True), devices):
            expected = row["traces"][device] if "traces" in row else row["trace"]
            found = traced(row, args, kwargs, outputs, device, version)
            if found != expected:
                wrong.append(f"{text(row)} on {version} {device}\n  {expected}\n  {found}")
    assert wrong == []


def traced(row, args, kwargs, outputs, device, version):
    profile, mode = find_profile(device), row.get("deterministic", False)
    rules = minor_version(f"{version}.0")
    steps = plan(OpCall(row["op"], tuple(args), kwargs, outputs, profile, mode, rules))
    return None if steps is None else trace(steps, outputs, None, False)
