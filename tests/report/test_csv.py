"""The CSV file: its columns, reading it back, and texts that a spreadsheet would compute."""

import csv
import io
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings

from pytest_attnmem.report.csv import COLUMNS, render
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise

from .rows import OVER, records

ROW = replace(OVER, nodeid="a.py::test", allocated_bytes=None, retained_bytes=-8)


def lines(*rows: Record) -> list[dict[str, str]]:
    """Returns the cells that a reader of CSV reads."""
    return [*csv.DictReader(io.StringIO(render(summarise(rows), {}), newline=""), strict=True)]


def test_the_columns_are_the_fields_of_one_value_in_the_order_of_the_json() -> None:
    assert [part.name for part in fields(Record) if part.name not in COLUMNS] == [
        *("held", "timeline", "growth", "explanation"),
    ]
    (line,) = lines(ROW)
    assert tuple(line) == COLUMNS
    assert COLUMNS[:4] == ("nodeid", "region", "outcome", "reason")


def test_a_line() -> None:
    (line,) = lines(ROW)
    shown = {name: cell for name, cell in line.items() if cell}
    assert shown == {
        "nodeid": "a.py::test",
        "outcome": "over",
        "reason": "peak 2.0 KiB exceeds budget 1.0 KiB (2.0x) on cpu",
        "metric": "peak",
        "backend": "cpu",
        "device": "cpu",
        "shape": "B=1 N=64",
        "budget": "16*N",
        "limit_bytes": "1024",
        "peak_bytes": "2048",
        "retained_bytes": "-8",
        "workspace_bytes": "512",
        "allocations": "2",
        "duration_s": "0.25",
    }


def test_lines_end_as_the_standard_has_it_and_one_follows_another_by_test() -> None:
    assert render(summarise([]), {}) == ",".join(COLUMNS) + "\r\n"
    text = render(summarise([replace(ROW, nodeid="b"), ROW]), {})
    assert [line[:4] for line in text.split("\r\n")] == ["node", "a.py", "b,,o", ""]


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "\n", "＝", "'"], ids=ascii)
@pytest.mark.parametrize("name", ["nodeid", "region", "reason", "budget"])
def test_text_that_a_spreadsheet_would_compute_is_marked_as_text(name: str, start: str) -> None:
    changed: dict[str, Any] = {name: f"{start}cmd|' /C calc'!A0"}
    (line,) = lines(replace(ROW, **changed))
    assert line[name] == f"'{start}cmd|' /C calc'!A0"


@settings(deadline=None)  # the machine may be busy
@given(records)
def test_a_row_reads_back(row: Record) -> None:
    (line,) = lines(row)
    for name in COLUMNS:
        value, cell = getattr(row, name), line[name]
        if isinstance(value, bool):
            assert cell == ("true" if value else "")
        elif isinstance(value, (int, float)):
            assert type(value)(cell) == value
        elif value is None:
            assert cell == ""
        elif isinstance(value, str):
            assert (cell[1:] if cell.startswith("'") else cell) == value.replace("\0", "␀")
