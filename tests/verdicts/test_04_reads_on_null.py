"""On the null device a branch and a size are taken from the true value, of whatever type."""

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
    "clip": lambda g: g.norm().item() > 1 and torch.empty(1 << 18, device="cuda"),
    "double": lambda g: g.double().sum().item() > 1 and torch.empty(1 << 18, device="cuda"),
    "half": lambda g: float(g.half().sum()) > 1 and torch.empty(1 << 18, device="cuda"),
    "size": lambda g: torch.empty(int(g.sum().item() * 4096), device="cuda"),
    "format": lambda g: check(f"{g.sum():.1f}", "20480.0"),
    "compare": lambda g: g.sum() > 1 and torch.empty(1 << 18, device="cuda"),
    "list": lambda g: check(g.tolist(), [5.0] * 4096),
    "host": lambda g: check(bool(g.cpu().sum() > 1), True),
    "hook": lambda g: (g.requires_grad_().register_hook(
        lambda d: check(float(d.sum()), 8192.0)), (g * 2).sum().backward()),
    "none": lambda g: g.sum(),
}

def check(found, expected):
    assert found == expected

@pytest.mark.memory_budget("1 MiB")
@pytest.mark.parametrize("case", CASES)
def test_it(case):
    CASES[case](torch.ones(4096, device="cuda") * 5)
"""
ONE = 4096 * 4
#: The peak of each case; a product and its factor are alive at first.
PEAKS = {
    "clip": 2**20 + ONE,
    "double": 2**20 + ONE,
    "half": 2**20 + ONE,
    "size": 5 * 4096 * 4096 * 4 + ONE,
    "format": 2 * ONE,
    "compare": 2**20 + ONE,
    "list": 2 * ONE,
    "host": 2 * ONE,
    "hook": 2 * ONE + 12,
    "none": 2 * ONE,
}


def test_a_window_in_which_a_value_is_read_has_the_peak_of_a_real_device(tmp_path):
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
    found = {row["nodeid"].partition("[")[2][:-1]: row for row in rows}
    assert {case: row["peak_bytes"] for case, row in found.items()} == PEAKS
    over = {case for case, row in found.items() if row["outcome"] == "over"}
    assert over == {"clip", "double", "half", "size", "compare"}
