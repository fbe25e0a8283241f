"""Workloads measured in this process: on the simulated device, as PyTorch's allocator did."""

import json
import warnings
from pathlib import Path

import pytest
import torch

from pytest_attnmem.profiles import PROFILES, find_profile
from pytest_attnmem.verification import document, server
from pytest_attnmem.verification.comparison import Peaks, Row
from pytest_attnmem.verification.workload import Workload
from pytest_attnmem.verification.workloads import WORKLOADS

DATA = Path(__file__).parents[1] / "data"
#: Written by ``attnmem verify --json``: on GPUs, and on the null device.
RECORDINGS = sorted([*DATA.glob("gpu/*.json"), *DATA.glob("verify/*.json")])
MINOR = torch.__version__.split(".")[:2]
OF_THIS_TORCH = [
    pytest.param(found, id=path.stem)
    for path in RECORDINGS
    for found in [document.read(path)]
    if found.versions["torch"].split(".")[:2] == MINOR
]
#: What the simulated device has no model of.
UNMEASURED = {"product/int8", "compiled/norm"}
#: What it measures where cuDNN is installed, or its plans are in the user's cache.
BY_CUDNN = {"convolution/1d-fp16", "convolution/transposed-fp16"}


@pytest.fixture(scope="module")
def simulated():
    return server.opened("simulated", find_profile("A100-80GB"))


@pytest.mark.parametrize("recording", OF_THIS_TORCH)
def test_the_simulated_device_has_the_bytes_of_the_recordings(recording):
    """A part of the workloads; ``attnmem verify --against`` holds all of them to a recording."""
    simulated = server.opened("simulated", find_profile(recording.profile))
    known = {row.name: row.reference for row in recording.rows}
    assert [*known] == [workload.name for workload in WORKLOADS]
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for workload in WORKLOADS[::3]:
            ours = server.peaks(simulated, workload)
            rows.append(Row(workload.name, {"null": known[workload.name], "simulated": ours}))
    assert {row.name: row.differences["simulated"] for row in rows if row.differs} == {}
    assert {row.name for row in rows if not row.compared} - BY_CUDNN == UNMEASURED


def test_this_torch_has_a_recording():
    assert OF_THIS_TORCH


def test_a_server_answers_each_name_and_goes_on_after_an_error(simulated):
    def fails():
        raise LookupError("no\nsuch kernel")

    def is_large():
        torch.empty(1 << 40, device="cuda")

    programs = {
        "fails": fails,
        "large": is_large,
        "small": lambda: torch.empty(1000, dtype=torch.uint8, device="cuda"),
    }
    answers = []
    workloads = [Workload(name, run) for name, run in programs.items()]
    server.serve(simulated, workloads, ["fails\n", "large\n", "small\n"], answers.append)
    assert answers[0] == {"problem": "LookupError: no such kernel"}
    assert answers[1]["problem"].startswith("OutOfMemoryError: ")
    assert answers[2] == {"requested": 1000, "allocated": 1024, "reserved": 2097152}


@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_a_profile_reaches_the_process_whole(profile):
    text = server.as_argument(profile)
    assert server.from_argument(text) == profile
    assert json.loads(text)["name"] == profile.name
    assert (server.as_argument(None), server.from_argument("")) == ("", None)


def test_peaks_are_three_numbers_or_a_problem():
    assert Peaks(1, 2, 3).as_json() == {"requested": 1, "allocated": 2, "reserved": 3}
    assert Peaks(problem="none").as_json() == {"problem": "none"}
