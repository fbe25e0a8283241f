"""A simulated device, to run programs on."""

import sys
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from replays import emptied

from pytest_attnmem.backends.primed_backend import PrimedBackend
from pytest_attnmem.backends.registry import open_backend
from pytest_attnmem.measurement.environment import are_kept
from pytest_attnmem.measurement.environment import kept_workspaces as keeping
from pytest_attnmem.torch_releases import minor_version

sys.path.insert(0, str(Path(__file__).parent))  # for programs.py, which the null device runs too


@pytest.fixture
def kept_workspaces():
    """Keeps the workspaces of matrix products on every version, as sessions of the plugin do."""
    with keeping():
        yield


@pytest.fixture(scope="session")
def backends():
    """Returns a function that opens the backend of a profile once, and empties its device.

    There is one with workspaces kept and one with workspaces freed.
    """
    opened = {}

    def backend(profile="A100-80GB"):
        key = (profile, are_kept(minor_version(torch.__version__)))
        if key not in opened:
            opened[key] = open_backend(f"simulated:{profile}")
        emptied(opened[key])
        return opened[key]

    return backend


@pytest.fixture
def run(backends):
    """Returns a function that measures a call on an empty device."""

    def measured(fn, profile="A100-80GB", primed=True):
        backend = backends(profile)
        emptied(backend, primed=primed)
        measurement, _ = PrimedBackend(backend, 0).run(fn)
        return measurement

    return measured


@pytest.fixture
def returned(backends):
    """Returns a function that runs a program whose memory is known, and returns what it does."""

    def of(program, profile="A100-80GB"):
        measurement, result = PrimedBackend(backends(profile), 0).run(program)
        assert measurement.unmeasured is None
        return result

    return of


@pytest.fixture(scope="module")
def kept_session():
    """The backend of a session, and its device outside windows."""
    backend = open_backend("simulated:RTX 4090")
    return backend, backend.outside()


@pytest.fixture(params=["inside", "outside"])
def anywhere(request, kept_session):
    """A program runs inside a window, or in a fixture."""
    backend, outside = kept_session
    backend.forget()
    outside.enter()
    with backend.world() if request.param == "inside" else nullcontext():
        yield
    outside.exit()
