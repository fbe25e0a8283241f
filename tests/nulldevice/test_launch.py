import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from unavailable import refusal

from pytest_attnmem.nulldevice import launch
from pytest_attnmem.nulldevice.counts import unknown_calls
from pytest_attnmem.nulldevice.launch import (
    active,
    described,
    devices,
    environment,
    load,
    may_load,
    present,
    reexec,
    variables,
)
from pytest_attnmem.profiles import PROFILES

FOLDER = Path("/cache/key")
H100 = PROFILES["H100"]


def test_a_program_is_told_its_devices():
    over = variables(FOLDER, H100, 2, {})
    assert over.pop("LD_PRELOAD") == "/cache/key/libcuda.so.1:/cache/key/libattnmem-calls.so"
    assert over.pop("LD_LIBRARY_PATH") == over.pop("TRITON_LIBCUDA_PATH") == "/cache/key"
    assert over.pop("ATTNMEM_NULL_PLANS") == "/cache/key"
    assert over == {
        "ATTNMEM_NULL_PROFILE": "H100",
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
        "ATTNMEM_NULL_PEER_ACCESS": "1",
        "ATTNMEM_NULL_TENSOR_CLOCK_KHZ": "1830000",
        "ATTNMEM_NULL_HALF_RATE": "",
    }


@pytest.mark.parametrize("count", [1, 8])
@pytest.mark.parametrize(
    "profile", [*PROFILES.values(), replace(H100, name="my own")], ids=lambda profile: profile.name
)
def test_what_a_program_is_told_says_which_devices_they_are(profile, count):
    told = variables(FOLDER, profile, count, {})
    assert described(told) == (profile, count)
    assert told["ATTNMEM_NULL_CAPABILITY"] == "{}{}".format(*profile.compute_capability)


def test_devices_of_a_plugins_are_asked_for_too():
    own = replace(H100, name="my own", memory_bytes=1 << 30)
    assert devices("2xMy-Own", [own]) == (own, 2)
    assert devices("H100", [own]) == (H100, 1)


def test_what_is_preloaded_already_is_kept_and_comes_after():
    present = {"LD_PRELOAD": "/usr/lib/libjemalloc.so", "LD_LIBRARY_PATH": "/opt/a:/opt/b"}
    over = variables(FOLDER, H100, 1, present)
    ours = "/cache/key/libcuda.so.1:/cache/key/libattnmem-calls.so"
    assert over["LD_PRELOAD"] == f"{ours}:/usr/lib/libjemalloc.so"
    assert over["LD_LIBRARY_PATH"] == "/cache/key:/opt/a:/opt/b"
    again = variables(FOLDER, H100, 1, over)
    assert again == over


def test_no_device_is_refused():
    assert refusal(environment, H100, 0) == "the number of null devices is 0; use 1 or more"


def test_this_process_does_not_run_under_it():
    assert active() is False
    assert present() is None
    assert refusal(unknown_calls) == "this process does not run under the null device"


@pytest.mark.parametrize(
    ("text", "name", "number"),
    [
        ("", "A100-80GB", 1),
        ("H100", "H100", 1),
        ("8xH100", "H100", 8),
        ("2x", "A100-80GB", 2),
        ("rtx 3090", "RTX 3090", 1),
        ("2xRTX-3090", "RTX 3090", 2),
    ],
)
def test_devices_are_asked_for_by_name_and_number(text, name, number):
    assert devices(text) == (PROFILES[name], number)
    shown = name.replace(" ", "-")
    assert str(devices(text)) == (f"{number}x{shown}" if number > 1 else shown)


@pytest.mark.parametrize("text", ["H1000", "0xH100", "x", "2x2xH100", "H100x2"])
def test_a_device_that_is_not_known_is_refused(text):
    assert re.match(r"unknown device .* expected one of .*H100", refusal(devices, text))


@pytest.fixture
def reexecuted(monkeypatch):
    """Returns the list of programs that ``reexec`` would have run."""
    seen = []
    monkeypatch.setattr(launch, "environment", lambda *_: {"LD_PRELOAD": "x.so"})
    monkeypatch.setattr(launch.os, "execvpe", lambda *args: seen.append(args))
    return seen


def test_a_process_becomes_the_program_with_these(reexecuted, monkeypatch):
    monkeypatch.setenv("KEPT", "1")
    reexec(["python", "-c", "pass"], devices("H100"))
    ((file, command, over),) = reexecuted
    assert (file, command) == ("python", ["python", "-c", "pass"])
    assert (over["KEPT"], over["LD_PRELOAD"]) == ("1", "x.so")


def test_a_program_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(launch, "environment", lambda *_: {})
    text = refusal(reexec, ["/no/such/program"], devices("H100"))
    assert text == "cannot run '/no/such/program': No such file or directory"


def test_a_python_that_heeds_no_preloading_does_not_start_for_ever(reexecuted, monkeypatch):
    monkeypatch.setenv("ATTNMEM_NULL_PROFILE", "H100")
    text = refusal(reexec, [sys.executable], devices("H100"))
    assert text == f"the null device was not loaded: {sys.executable} ignores LD_PRELOAD"
    assert reexecuted == []


def test_a_runtime_that_cannot_be_loaded_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(launch.os, "environ", {})
    monkeypatch.setattr(launch, "environment", lambda *_: {"ATTNMEM_NULL_PLANS": str(tmp_path)})
    text = refusal(load, devices("H100"))
    assert text.startswith("the null device was not loaded: ")
    assert str(tmp_path / "libcuda.so.1") in text


def test_a_process_with_torch_is_too_late():
    import torch  # noqa: F401

    assert not may_load()
    script = "from pytest_attnmem.nulldevice.launch import may_load; print(may_load())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("True\n", "")
