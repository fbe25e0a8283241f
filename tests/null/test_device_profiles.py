"""A session on a device that a plugin adds."""

import pytest
from suites import KNOWN_DEVICES

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
def run(session, tmp_path):
    """Runs the tests on the null device of that name, with the profile in this file."""

    def ran(file, *arguments):
        tmp_path.joinpath(file).write_text(PLUGIN, "utf-8")
        return session(TESTS, "--attnmem-backend=null:tiny-1", *arguments, PYTHONPATH=str(tmp_path))

    return ran


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "xdist"])
def test_a_plugins_device_is_there_before_torch(run, workers):
    if workers:
        pytest.importorskip("xdist")
    done = run("tiny.py", "-p", "tiny", *workers)
    assert done.code == 0, done.out
    rows = done.data["results"]
    found = sorted((row["nodeid"], row["outcome"], row["backend"]) for row in rows)
    assert found == [
        ("test_it.py::test_fits", "within", "null:Tiny-1"),
        ("test_it.py::test_named", "within", "null:Tiny-1"),
    ]


def test_a_conftests_comes_too_late(run):
    done = run("conftest.py")
    assert done.code == pytest.ExitCode.USAGE_ERROR
    assert done.err.strip() == (
        f"ERROR: --attnmem-backend: unknown device 'tiny-1'; {KNOWN_DEVICES}"
    )
