"""What the gate makes of rows; the rows themselves take an hour."""

import json

import pytest

from . import run

ROW = [1, 2, 3, 0, 4]


@pytest.mark.parametrize(
    ("row", "truth", "kind"),
    [
        (ROW, ROW, "equal"),
        (ROW, [1, 2, 3, 0, 8], "wrong"),  # the generator drew more
        (ROW, ROW[:3], "equal"),  # a recording has the peaks alone
        (ROW, "refused: a read", "answered"),
        ("refused: no model of aten.mm.default", ROW, "refused"),
        ("raised: ValueError: 3", "raised: ValueError: 3", "equal"),
        ("raised: ValueError: 3", ROW, "raised"),
        ("crashed: signal 11", ROW, "crashed"),
    ],
)
def test_a_row_is_of_a_kind(row, truth, kind):
    assert run.of_program(row, truth) == kind


def test_the_page_counts_programs_and_lists_what_is_wrong():
    programs = run.programs_told(
        {"pair": ROW, "one": ROW}, {"pair": [1, 2, 3, 0, 8]} | {"one": ROW}
    )
    found = {
        "2.13.0": {
            "programs": {"zoo": programs},
            "orders": {"zoo": run.orders_told({"pair": ROW}, {"alone": {"pair": [1, 2, 5, 0, 4]}})},
        }
    }
    lines = run.page(json.loads(run._lines(found))).splitlines()
    assert "| zoo | 2 | 2 | 1 | 0 | 0 | 1 | 0 |" in lines
    assert "| **all** | 2 | 2 | 1 | 0 | 0 | 1 | 0 |" in lines
    assert "- order, zoo: alone 0 of 1 the same" in lines
    assert "- zoo `pair`: [1, 2, 3, 0, 8], null [1, 2, 3, 0, 4]" in lines
    assert "- zoo `pair`, alone: [1, 2, 5, 0, 4], given [1, 2, 3, 0, 4]" in lines


def test_the_page_is_current():
    found = json.loads(run.FILE.read_text("utf-8"))
    assert (run.HERE / "gate.md").read_text("utf-8") == run.page(found)


def test_times_are_medians_of_ratios_of_the_programs_that_both_ran():
    seconds = {
        "simulated": {"a": [2.0, 1.0], "b": [3.0, 1.0], "c": [9.0, 9.0], "d": None},
        "null": {"a": [1.0, 2.0], "b": [1.0, 1.0], "c": [None, 1.0], "d": [1.0, 1.0]},
    }
    assert run.times_told(seconds) == {"null": {"programs": 2, "first": 2.5, "again": 0.75}}


def test_the_peaks_of_a_recording_are_the_truth():
    rows = {"acc_shared": [1, 2, 3, 4, 5], "of no recording": ROW}
    found = run.truths("programs", rows, "2.13")
    assert found["acc_shared"] == [23330824, 23331840, 29360128, 4, 5]
    assert found["of no recording"] == ROW
    assert len(found["views"]) == 3
    assert run.truths("workloads", rows, "2.13") == rows
