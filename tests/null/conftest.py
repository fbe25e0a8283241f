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
import json, os, sys
from pytest_attnmem.nulldevice import counts
MIB, GIB = 2**20, 2**30
def answer(*values):
    print(json.dumps(values), flush=True)
    os._exit(0)
"""


@pytest.fixture(scope="session", autouse=True)
def cuda_build():
    """Skips the tests if there is no CUDA build or no compiler, or if there is a real driver."""
    try:
        environment(find_profile("A100-80GB"))
    except BackendUnavailable as error:
        pytest.skip(str(error))


@pytest.fixture
def under():
    """Returns a function that runs a script on the null device and returns its ``answer``."""

    def run(script, device="A100-80GB", devices=1, **variables):
        paths = os.pathsep.join([str(PACKAGE), str(HERE), os.environ.get("PYTHONPATH", "")])
        done = subprocess.run(
            [sys.executable, "-c", PROLOGUE + script],
            env={
                **{name: value for name, value in os.environ.items() if name != KEPT},
                **environment(find_profile(device), devices),
                "PYTHONPATH": paths,
                **variables,
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return tuple(json.loads(done.stdout.splitlines()[-1]))

    return run
