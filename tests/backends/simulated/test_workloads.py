"""Workloads held out from the rules, against PyTorch's own allocator, to the byte.

``test_whole_programs.py`` has the others.
"""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

from known_gaps import AT_FIRST, GAPS, UNSETTLED
from replays import recorded, replay, workloads

NAME = "workloads-held-out"
RECORDED = recorded(NAME)
CASES = [
    pytest.param(workload, device, peaks, id=f"{device}-{workload}")
    for workload, on in RECORDED.items()
    for device, peaks in on.items()
]


@pytest.mark.parametrize(("workload", "device", "peaks"), CASES)
def test_a_workload_has_the_recorded_peaks(workload, device, peaks):
    found = replay(workloads("workloads_held_out")[workload], device)
    if workload in GAPS:
        assert found.problem.startswith(GAPS[workload].problem)
    else:
        beyond = UNSETTLED.get(workload, 0)
        assert found == replace(peaks, reserved=peaks.reserved - beyond)


def test_every_workload_is_recorded():
    assert {*workloads("workloads_held_out")} - {*RECORDED} == {"flash_paper"}
    assert {*GAPS} <= {*AT_FIRST} <= {*RECORDED}
    assert len(RECORDED) >= 10


def test_a_replay_reports_how_it_ended():
    def fails():
        torch.empty(3, device="cuda")
        raise LookupError("no such thing")

    def reads():
        assert torch.ones(3, device="cuda").sum().item() == 3

    def is_too_large():
        torch.empty(1 << 40, device="cuda")

    problems = [replay(call, "A100-80GB").problem for call in (fails, reads, is_too_large)]
    assert problems[0] == "LookupError: no such thing"
    assert problems[1] == ""
    assert problems[2].startswith("out of memory: needs 4.0 TiB more")
