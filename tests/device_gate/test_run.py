"""What the gate makes of rows; the rows themselves take an hour."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent))

import run

ROW = [1, 2, 3, 0, 4]


@pytest.mark.parametrize(
    ("row", "truth", "kind"),
    [
        (ROW, ROW, "equal"),
        (ROW, [1, 2, 3, 0, 8], "wrong"),  # the generator drew more
        (ROW, "refused: a read", "answered"),
        ("refused: no model of aten.mm.default", ROW, "refused"),
        ("raised: ValueError: 3", "raised: ValueError: 3", "equal"),
        ("raised: ValueError: 3", ROW, "raised"),
        ("crashed: signal 11", ROW, "crashed"),
    ],
)
def test_a_row_is_of_a_kind(row, truth, kind):
    assert run.of_program(row, truth) == kind


def test_what_null_refuses_is_no_fault_of_a_stand_in():
    kinds = ["equal", "raises as null", "needs values", "answers more", "wrong"]
    assert run.counted(run.of_op_db([kind, ""]) for kind in kinds) == {
        **{"rows": 5, "answered": 4, "equal": 2, "refused": 1, "raised": 0},
        **{"wrong": 1, "crashed": 0},
    }


def test_the_page_lists_what_is_wrong_and_what_today_answers():
    rows = {"add float32 0": ["equal", ""]}
    found = {
        "torch": "2.13.0",
        "op_db": {"simulated": rows, "device": {"add float32 0": ["refused", "no model"]}},
        "programs": {
            "null": {"zoo": {"pair": ROW}},
            "simulated": {"zoo": {"pair": ROW}},
            "device": {"zoo": {"pair": [1, 2, 3, 0, 8]}},
        },
    }
    lines = run.page(found).splitlines()
    assert "| op_db | simulated | 1 | 1 | 1 | 0 | 0 | 0 | 0 |" in lines
    assert "| zoo | device | 1 | 1 | 0 | 0 | 0 | 1 | 0 |" in lines
    assert "- zoo `pair`: [1, 2, 3, 0, 8], null [1, 2, 3, 0, 4]" in lines
    assert "- `add float32 0`: no model" in lines
