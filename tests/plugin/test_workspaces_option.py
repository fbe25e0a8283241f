"""``--attnmem-workspaces``: the workspaces of matrix products in budgets, or apart."""

import pytest

VARIABLE = "TORCH_CUBLAS_WORKSPACE_CACHE"
MEASURED = f"""
import os, pytest

@pytest.mark.memory_budget("1 GiB", backend="cpu")
def test_measured():
    print("the switch is", os.environ.get("{VARIABLE}"))
"""
PLAIN = f"""
import os

def test_plain():
    print("the switch is", os.environ.get("{VARIABLE}"))
"""


@pytest.fixture(autouse=True)
def _no_switch(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.mark.parametrize(
    ("text", "options", "switch"),
    [
        (MEASURED, (), "1"),
        (MEASURED, ("--attnmem-workspaces=in",), None),
        (MEASURED, ("--attnmem-disable",), None),
        (PLAIN, (), None),
    ],
)
def test_the_switch_is_on_while_workspaces_are_left_out(suite, text, options, switch):
    suite.write(text)
    ran = suite.run("-s", "--attnmem-strict=off", *options)
    assert ran.outcomes["passed"] == 1
    assert f"the switch is {switch}" in ran.text
