"""Facts of a session of several processes, and the switch that keeps workspaces outside windows."""

import pytest

from pytest_attnmem.measurement.environment import are_kept, describe, kept_workspaces, merged

UNKNOWN = {"torch": None}
COUNTS = {"devices": "H100", "unknown_calls": {"cudaX": 1, "cudaY": 2}, "device_reads": 3}
MORE = {"devices": "H100", "unknown_calls": {"cudaY": 5, "cudaZ": 1}, "device_reads": 4}
SUM = {"devices": "H100", "unknown_calls": {"cudaX": 1, "cudaY": 7, "cudaZ": 1}, "device_reads": 7}


@pytest.mark.parametrize(
    ("first", "other", "both"),
    [
        (None, {"torch": "2"}, {"torch": "2"}),
        (UNKNOWN, {"torch": "2"}, {"torch": "2"}),
        ({"torch": "2"}, UNKNOWN, {"torch": "2"}),
        (
            {"torch": "2", "null_device": COUNTS},
            {"torch": "2", "null_device": MORE},
            {"torch": "2", "null_device": SUM},
        ),
    ],
)
def test_the_first_that_knows_torch_counts_and_counts_add_up(first, other, both):
    assert merged(first, other) == both


def test_a_process_elsewhere_says_nothing_of_the_null_device(monkeypatch):
    monkeypatch.delenv("ATTNMEM_NULL_PROFILE", raising=False)
    assert "null_device" not in describe()


VARIABLE = "TORCH_CUBLAS_WORKSPACE_CACHE"


@pytest.mark.parametrize(
    ("version", "environ", "kept"),
    [
        ((2, 13), {}, True),
        ((2, 14), {VARIABLE: "0"}, True),
        ((2, 15), {}, False),
        ((2, 15), {VARIABLE: "0"}, False),
        ((2, 15), {VARIABLE: "1"}, True),
    ],
)
def test_versions_before_2_15_always_keep_workspaces(version, environ, kept):
    assert are_kept(version, environ) is kept


@pytest.mark.parametrize("before", [{}, {VARIABLE: "0"}, {VARIABLE: "1"}])
def test_the_body_runs_with_the_switch_on_unless_the_environment_says(before):
    environ = {**before}
    with kept_workspaces(environ):
        assert environ == (before or {VARIABLE: "1"})
    assert environ == before
