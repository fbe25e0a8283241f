"""On the null device no branch and no size is taken from a value, of whatever type."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import pytest_attnmem
from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice.launch import environment
from pytest_attnmem.profiles import find_profile

SUITE = """
import pytest, torch

CASES = {
    "clip": lambda g: g.norm().item() > 1 and torch.empty(16 << 20, device="cuda"),
    "double": lambda g: g.double().sum().item() > 1 and torch.empty(16 << 20, device="cuda"),
    "half": lambda g: float(g.half().sum()) > 1 and torch.empty(16 << 20, device="cuda"),
    "size": lambda g: torch.empty(int(g.sum().item() * 4096), device="cuda"),
    "format": lambda g: f"{g.sum():.1f}",
    "compare": lambda g: g.sum() > 1 and torch.empty(16 << 20, device="cuda"),
    "list": lambda g: g.tolist(),
    "host": lambda g: g.cpu().sum() > 1,
    "hook": lambda g: (g.requires_grad_().register_hook(
        lambda d: print(float(d.sum()))), (g * 2).sum().backward()),
    "none": lambda g: g.sum(),
}

@pytest.mark.memory_budget("1 MiB")
@pytest.mark.parametrize("case", CASES)
def test_it(case):
    CASES[case](torch.ones(4096, device="cuda") * 5)
"""
LINES = {
    line.partition('"')[2].partition('"')[0]: number
    for number, line in enumerate(SUITE.splitlines(), 1)
    if line.startswith('    "')
}
LINES["hook"] += 1


def test_a_window_in_which_a_value_is_read_is_not_enforced_and_names_the_line(tmp_path):
    try:
        environment(find_profile("H100"))
    except BackendUnavailable as error:
        pytest.skip(str(error))
    tmp_path.joinpath("test_it.py").write_text(SUITE, "utf-8")
    command = [sys.executable, "-m", "pytest", "--attnmem-backend=null:H100"]
    subprocess.run(
        [*command, "--attnmem-json=rows.json", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(str(pytest_attnmem.__file__)).parents[1])},
        capture_output=True,
        timeout=300,
        check=False,
    )
    rows = json.loads(tmp_path.joinpath("rows.json").read_text("utf-8"))["results"]
    read = (
        "the device was read once, at test_it.py:{}: it gives zeros, and a size or a branch that"
        " depends on them is wrong; read values after the window"
    )
    assert {row["nodeid"].partition("[")[2][:-1]: row["reason"] for row in rows} == {
        **{case: read.format(line) for case, line in LINES.items()},
        "none": "",
    }
