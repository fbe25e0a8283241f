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


def test_marked_tests_run_and_are_not_enforced(run):
    ran = run("--attnmem-report")
    assert "1 failed, 2 passed, 2 errors" in ran.stdout.splitlines()[-1]
    unavailable = f"pytest_attnmem.errors.BackendUnavailable: backend 'cpu' {NEEDED}"
    asked_for = f"Failed: memory_budget: backend 'cpu' {NEEDED}   test_suite.py:11"
    assert f"FAILED test_suite.py::test_region - {unavailable}" in ran.stdout
    assert f"ERROR test_suite.py::test_asked_for - {asked_for}" in ran.stdout
    assert f"not enforced  test_suite.py::test_marked: backend 'cpu' {NEEDED}" in ran.stdout


def test_strict_fails_them(run):
    ran = run("--attnmem-strict", "-k", "test_marked")
    assert ran.returncode == pytest.ExitCode.TESTS_FAILED
    assert f"not enforced: backend 'cpu' {NEEDED}" in ran.stdout
