"""A suite with budgets can be collected and run without torch."""

import subprocess
import sys

import pytest

#: Makes torch look as if it were not installed.
NO_TORCH = """
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError(f"No module named {name!r}", name="torch")

sys.meta_path.insert(0, Blocker())
"""

SUITE = """
import pytest
from pytest_attnmem import AttentionShape, MemoryModel, Phase, parse_size

@pytest.mark.memory_budget("64 MiB")
def test_marked(): pass

@pytest.mark.memory_budget("B.real")
def test_bad(): pass

@pytest.mark.memory_budget("64 MiB", backend="cpu")
def test_asked_for(): pass

def test_region(attnmem):
    with attnmem.region("part"):
        pass

def test_unmarked(): assert parse_size("1 KiB") == 1024
"""

NEEDED = "needs torch, which is not installed; pip install torch"


@pytest.fixture
def run(suite, monkeypatch):
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)  # a setting of pytest-asyncio
    suite.write(NO_TORCH, "conftest.py")
    suite.write(SUITE)

    def runner(*arguments):
        command = [sys.executable, "-m", "pytest", "-p", "attnmem", "-p", "no:cacheprovider", "-rA"]
        return subprocess.run(
            [*command, *arguments],
            cwd=suite.path,
            capture_output=True,
            text=True,
            check=False,
        )

    return runner


def test_it_is_collected(run):
    ran = run("--collect-only", "-q")
    assert ran.returncode == pytest.ExitCode.OK
    assert "5 tests collected" in ran.stdout


def test_tests_run_and_what_is_not_enforced_is_said_once(run):
    ran = run("--deselect=test_suite.py::test_bad")
    assert ran.returncode == pytest.ExitCode.OK
    assert "3 passed, 1 skipped, 1 deselected" in ran.stdout.splitlines()[-1]
    assert f"  2 not enforced: backend 'cpu' {NEEDED}" in ran.stdout.splitlines()
    assert f"SKIPPED [1] test_suite.py:14: NotKnown: backend 'cpu' {NEEDED}" in ran.stdout


def test_all_fails_them_and_a_marker_that_cannot_be_read_is_an_error(run):
    ran = run("--attnmem-strict=all")
    assert "3 failed, 1 passed, 1 error" in ran.stdout.splitlines()[-1]
    assert ran.stdout.splitlines().count(f"not enforced: backend 'cpu' {NEEDED}") == 3
