import sys
from pathlib import Path

import pytest

from pytest_attnmem.errors import BackendUnavailable
from pytest_attnmem.nulldevice import launch
from pytest_attnmem.nulldevice.launch import active, environment, run, variables
from pytest_attnmem.nulldevice.observe import device_memory, unknown_calls
from pytest_attnmem.profiles import PROFILES

FOLDER = Path("/cache/key")
H100 = PROFILES["H100"]


def test_a_program_is_told_its_devices():
    over = variables(FOLDER, H100, 2, {})
    assert over.pop("LD_PRELOAD") == "/cache/key/libcuda.so.1"
    assert over.pop("LD_LIBRARY_PATH") == over.pop("TRITON_LIBCUDA_PATH") == "/cache/key"
    assert over == {
        "ATTNMEM_NULL_DEVICES": "2",
        "ATTNMEM_NULL_NAME": "NVIDIA H100 (attnmem null device)",
        "ATTNMEM_NULL_CAPABILITY": "90",
        "ATTNMEM_NULL_MULTIPROCESSORS": "132",
        "ATTNMEM_NULL_MEMORY": str(H100.memory_bytes),
        "ATTNMEM_NULL_SHARED_PER_BLOCK": "232448",
        "ATTNMEM_NULL_SHARED_PER_MULTIPROCESSOR": "233472",
        "ATTNMEM_NULL_THREADS_PER_MULTIPROCESSOR": "2048",
        "ATTNMEM_NULL_BLOCKS_PER_MULTIPROCESSOR": "32",
        "ATTNMEM_NULL_L2": "52428800",
        "ATTNMEM_NULL_BUS_BITS": "5120",
        "ATTNMEM_NULL_CLOCK_KHZ": "1980000",
        "ATTNMEM_NULL_MEMORY_CLOCK_KHZ": "2619000",
    }


def test_a_capability_of_two_digits_is_told_apart():
    assert variables(FOLDER, PROFILES["B200"], 1, {})["ATTNMEM_NULL_CAPABILITY"] == "100"


def test_what_is_preloaded_already_is_kept_and_comes_after():
    present = {"LD_PRELOAD": "/usr/lib/libjemalloc.so", "LD_LIBRARY_PATH": "/opt/a:/opt/b"}
    over = variables(FOLDER, H100, 1, present)
    assert over["LD_PRELOAD"] == "/cache/key/libcuda.so.1:/usr/lib/libjemalloc.so"
    assert over["LD_LIBRARY_PATH"] == "/cache/key:/opt/a:/opt/b"
    again = variables(FOLDER, H100, 1, over)
    assert again == over


def test_no_device_is_refused():
    with pytest.raises(BackendUnavailable) as error:
        environment(H100, devices=0)
    assert str(error.value) == "the null device comes in one or more, not in 0"


def test_this_process_does_not_run_under_it():
    assert active() is False
    with pytest.raises(BackendUnavailable, match="does not run under the null device"):
        unknown_calls()
    with pytest.raises(BackendUnavailable, match="does not run under the null device"):
        device_memory()


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("import os; raise SystemExit(0 if os.environ['X'] == 'Y' else 1)", 0),
        ("raise SystemExit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGTERM)", 128 + 15),
    ],
)
def test_a_program_runs_with_these_and_its_code_comes_back(monkeypatch, body, code):
    monkeypatch.setattr(launch, "environment", lambda *_: {"X": "Y"})
    assert run([sys.executable, "-c", body], H100) == code


def test_a_program_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(launch, "environment", lambda *_: {})
    with pytest.raises(BackendUnavailable) as error:
        run(["/no/such/program"], H100)
    assert str(error.value) == "cannot run '/no/such/program': No such file or directory"
