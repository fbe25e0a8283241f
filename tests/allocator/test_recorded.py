"""The model against PyTorch's own allocator, as ``tests/null/record_allocator.py`` recorded it."""

import pytest
from recordings import read

from .replay import Model, play

RUNS = read("allocator", "2.13")["runs"]


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run["settings"] or "default")
def test_every_statistic_comes_out_after_every_event(run):
    model, expected = Model(run["settings"], run["capacity"]), {}
    for number, (*event, changed) in enumerate(run["events"]):
        expected |= changed
        assert play(model, event) == expected, (number, event)


def test_the_recordings_have_everything_in_them():
    events = {event[0] for run in RUNS for event in run["events"]}
    assert events == {"malloc", "free", "record_stream", "empty_cache", "reset_peak"}
    changed = [set().union(*(event[-1] for event in run["events"])) for run in RUNS]
    last = [
        {name: value for event in run["events"] for name, value in event[-1].items()}
        for run in RUNS
    ]
    assert all(end["alloc_retries"] or end["oom_rejections"] for end in last)
    assert sum(bool(end["ooms"]) for end in last) > len(last) // 2
    assert len(changed) == len(RUNS) > 10
