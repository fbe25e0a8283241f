"""What is said of what the runtime counted."""

import pytest

from pytest_attnmem.nulldevice.counts import remarks, unanswered


@pytest.mark.parametrize(
    ("calls", "reads", "lines"),
    [
        ({}, 0, []),
        (
            {"cudaX": 2, "cuY": 1},
            0,
            ["attnmem: the null device has no answer to cudaX (2), cuY (1)"],
        ),
        ({}, 3, ["attnmem: reads of device memory that got zeros: 3"]),
    ],
)
def test_what_was_counted_is_told_in_a_line_each(calls, reads, lines):
    device = {"devices": "H100", "unknown_calls": calls, "device_reads": reads}
    assert [*remarks(device)] == lines
    assert [*unanswered(device)] == [line for line in lines if "no answer" in line]
