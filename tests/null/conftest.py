"""Tests under the null runtime, each in a process of its own; they need the CUDA build of torch."""

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

HERE = Path(__file__).parent
PACKAGE = Path(str(pytest_attnmem.__file__)).parents[1]

#: The switch of workspaces, which the plugin sets for the tests themselves.
KEPT = "TORCH_CUBLAS_WORKSPACE_CACHE"

#: The names that a script may use. A script answers last, and ends at once: torch may abort a
#: process that ends while autograd's thread still frees a graph.
PROLOGUE = """
import ctypes, json, os, sys
from pytest_attnmem.nulldevice import counts
MIB, GIB = 2**20, 2**30
def answer(*values):
    print(json.dumps(values), flush=True)
    os._exit(0)
def device_memory(device=0):
    "Returns the bytes of the segments on a device, and their peak since the last reset."
    current, peak = ctypes.c_size_t(), ctypes.c_size_t()
    read = ctypes.CDLL(None).attnmem_null_memory
    assert read(device, ctypes.byref(current), ctypes.byref(peak)) == 0
    return current.value, peak.value
"""

#: What a script begins with whose operators are noted, so that it reads true values.
NOTED = """
import torch
import torch.nn.functional as F
from torch import nn
from pytest_attnmem.backends.null.noting import noting
from pytest_attnmem.backends.null.program import prepare
prepare(10**11)
"""


def ran(command, timeout=600, **options):
    """Returns how a process ended, and what it printed."""
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, check=False, **options
    )


@pytest.fixture(scope="session", autouse=True)
def cuda_build():
    """Skips the tests if there is no CUDA build or no compiler, or if there is a real driver."""
    try:
        environment(find_profile("A100-80GB"))
    except BackendUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def measured_on_null():
    """Returns a function that runs a table of ``tests`` on the null device, in one process."""

    def measure(table):
        attnmem = [sys.executable, "-m", "pytest_attnmem.cli", "run", "--device", "H100", "--"]
        program = [sys.executable, table.__file__, "null:H100"]
        return ran([*attnmem, *program], timeout=900)

    return measure


@pytest.fixture(scope="session")
def templates():
    """Returns a function that returns the :mod:`template` process of some devices."""
    started = {}

    def template(device, devices):
        if (device, devices) not in started:
            started[device, devices] = subprocess.Popen(
                [sys.executable, HERE / "template.py", f"{devices}x{device}"],
                env=variables(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        return started[device, devices]

    yield template
    for process in started.values():
        process.kill()
        process.communicate()


@pytest.fixture
def under(templates, tmp_path):
    """Returns a function that runs a script on the null device and returns its ``answer``.

    A script that needs more variables gets a process of its own: torch reads some when imported.
    """

    def run(script, device="A100-80GB", devices=1, **more):
        if more:
            over = {**variables(), **environment(find_profile(device), devices), **more}
            done = ran([sys.executable, "-c", PROLOGUE + script], timeout=300, env=over)
            status, output, errors = done.returncode, done.stdout, done.stderr
        else:
            template = templates(device, devices)
            files = tmp_path / "output", tmp_path / "errors"
            line = json.dumps([PROLOGUE + script, *map(str, files)])
            print(line, file=template.stdin, flush=True)
            status = int(template.stdout.readline())
            output, errors = (path.read_text() for path in files)
        assert status == 0, errors
        return tuple(json.loads(output.splitlines()[-1]))

    return run


@pytest.fixture
def noted(under):
    """Returns a function like ``under`` for scripts that read values."""
    return lambda script, *device, **more: under(NOTED + script, *device, **more)


class Ran:
    """The result of a session in a process of its own."""

    def __init__(self, done, rows):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.data = json.loads(rows.read_text("utf-8")) if rows.exists() else None

    def outcomes(self):
        return {
            row["nodeid"].partition("::")[2]: row["reason"] or row["outcome"]
            for row in self.data["results"]
        }


@pytest.fixture
def session(tmp_path):
    """Returns a function that runs a file of tests in an environment without the null device."""

    def run(tests, *arguments, ini="", **variables):
        tmp_path.joinpath("test_it.py").write_text(tests, "utf-8")
        tmp_path.joinpath("pytest.ini").write_text(f"[pytest]\n{ini}", "utf-8")
        command = (sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA")
        done = ran(
            [*command, "--attnmem-json=rows.json", *arguments],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "160", **variables},
        )
        return Ran(done, tmp_path / "rows.json")

    return run


@pytest.fixture
def attnmem(tmp_path):
    """Returns a function that runs ``attnmem run`` in a folder that has *script* as script.py.

    A session of pytest keeps workspaces for its tests; a program of its own, *alone*, does not.
    """

    def run(*arguments, script="", alone=False):
        tmp_path.joinpath("script.py").write_text(script, "utf-8")
        command = [sys.executable, "-m", "pytest_attnmem.cli", "run", *arguments]
        over = {name: value for name, value in os.environ.items() if not alone or name != KEPT}
        return ran(command, cwd=tmp_path, env={**over, "PYTHONPATH": str(PACKAGE)})

    return run


def variables():
    """Returns the environment variables of a process that finds the package and the tests."""
    paths = os.pathsep.join([str(PACKAGE), str(HERE), os.environ.get("PYTHONPATH", "")])
    kept = {name: value for name, value in os.environ.items() if name != KEPT}
    return {**kept, "PYTHONPATH": paths}
