"""Cases on simulated devices, and rows made up."""

from pathlib import Path

import pytest
import torch

from pytest_attnmem.backends.primed_backend import open_primed
from pytest_attnmem.measurement.garbage import GarbageFreezer
from pytest_attnmem.sweep.case import SweepCase, candidate_named
from pytest_attnmem.sweep.results import OK, Row, Sweep

MIB = 1 << 20


@pytest.fixture(scope="module", autouse=True)
def _little_garbage():
    """Every window collects it; what was imported is not visited each time."""
    collector = GarbageFreezer()
    collector.freeze(Path(__file__))
    yield
    collector.unfreeze()


@pytest.fixture(scope="session")
def gtx_1080():
    """The device of the reference benchmark."""
    return open_primed("simulated:GTX 1080")


@pytest.fixture
def case():
    """A case of the benchmark, B = 8 and one head."""

    def made(name, N, d=16, *, causal=True, backward=True, B=8, H=1, dtype=torch.float32):
        return SweepCase(candidate_named(name), B, H, N, d, dtype, causal, backward)

    return made


@pytest.fixture
def row():
    """A row of a sweep, its sizes in MiB."""

    def made(kernel, N, d=16, *, before=None, peak=None, status=OK, by="simulated", **fields):
        sizes = {"before_bytes": before, "peak_bytes": peak}
        sizes = {name: None if size is None else size * MIB for name, size in sizes.items()}
        fields = {"backward": True, "workspace_bytes": 0} | fields
        return Row(kernel, 8, 1, N, d, "float32", True, status=status, by=by, **sizes, **fields)

    return made


@pytest.fixture
def sweep():
    """A sweep of rows."""

    def made(*rows, **fields):
        parameters = {
            **{"kernel": "textbook", "d": "16", "n": "64", "batch": "8", "heads": "1"},
            **{"dtype": "float32", "causal": None, "backward": True},
            **{"device": "simulated:GTX 1080", "memory_bytes": 8 << 30},
        }
        parameters |= fields.pop("parameters", {})
        return Sweep(parameters, {"python": "3"}, rows, **fields)

    return made
