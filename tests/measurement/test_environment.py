"""The facts of a session whose parts ran in several processes."""

import pytest

from pytest_attnmem.measurement.environment import describe, merged

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
