"""A session on a device that a plugin adds."""

import json
import subprocess
import sys

import pytest

from pytest_attnmem.profiles import PROFILES

#: The devices that a message lists.
WHOLE = ", ".join(name for name in PROFILES if "MIG" not in name)
KNOWN = f"expected one of {WHOLE}, or a slice such as A100-40GB MIG 1g.5gb"
PLUGIN = """
from pytest_attnmem.profiles import DeviceProfile

def pytest_attnmem_device_profiles():
    return [DeviceProfile("Tiny 1", 1 << 30, (9, 0), 8, 1 << 20, 256, 1000, 1000)]
"""
TESTS = """
import pytest
import torch

@pytest.mark.memory_budget("4 KiB", exact=True)
def test_fits():
    assert torch.cuda.get_device_properties(0).total_memory == 1 << 30
    torch.empty(1024, device="cuda")

@pytest.mark.memory_budget("4 KiB", backend="null:Tiny 1")
def test_named():
    torch.empty(1024, device="cuda")
"""


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs the tests on the null device of that name, with the profile in this file."""

    def ran(file, *arguments):
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        tmp_path.joinpath(file).write_text(PLUGIN, "utf-8")
        tmp_path.joinpath("test_it.py").write_text(TESTS, "utf-8")
        tmp_path.joinpath("pytest.ini").write_text("[pytest]\n", "utf-8")
        options = ("--attnmem-backend=null:tiny-1", "--attnmem-json=rows.json", *arguments)
        return subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
            capture_output=True,
            cwd=tmp_path,
            text=True,
            check=False,
        )

    return ran


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_plugins_device_is_there_before_torch(run, tmp_path, workers):
    if workers:
        pytest.importorskip("xdist")
    done = run("tiny.py", "-p", "tiny", *workers)
    assert done.returncode == 0, done.stdout
    rows = json.loads(tmp_path.joinpath("rows.json").read_text("utf-8"))["results"]
    found = sorted((row["nodeid"], row["outcome"], row["backend"]) for row in rows)
    assert found == [
        ("test_it.py::test_fits", "within", "null:Tiny-1"),
        ("test_it.py::test_named", "within", "null:Tiny-1"),
    ]


def test_a_conftests_comes_too_late(run):
    done = run("conftest.py")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert done.stderr.strip() == (f"ERROR: --attnmem-backend: unknown device 'tiny-1'; {KNOWN}")
