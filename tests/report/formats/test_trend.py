"""The JSON for trend tools: the rows that are points, and their lines."""

import json
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.report.formats.trend import render
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise

from ..rows import records

#: The format ``customSmallerIsBetter`` in the README of github-action-benchmark.
SCHEMA: dict[str, Any] = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["name", "unit", "value"],
        "properties": {
            "name": {"type": "string"},
            "unit": {"const": "B"},
            "value": {"type": "number"},
            "extra": {"type": "string"},
        },
        "additionalProperties": False,
    },
}

ROW = Record(
    "a.py::test",
    outcome=Outcome.WITHIN,
    backend="simulated:H100",
    device="cuda:0",
    shape={"B": 1, "N": 64, "M": 64},
    budget="16*N",
    limit_bytes=1024,
    peak_bytes=1000,
    retained_bytes=8,
)


def points(*rows: Record) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(render(summarise(rows), {}))
    return found


def test_a_point() -> None:
    assert points(ROW) == [
        {
            "name": "a.py::test on simulated:H100",
            "unit": "B",
            "value": 1000,
            "extra": "B=1 N=64\nbudget 1 KiB = 16*N\nwithin",
        }
    ]


@pytest.mark.parametrize(
    ("changes", "name", "extra"),
    [
        ({"region": "x"}, "a.py::test [x] on simulated:H100", "budget 1 KiB = 16*N\nwithin"),
        ({"metric": "retained"}, "a.py::test (retained) on simulated:H100", "budget 1 KiB = 16*N"),
        ({"backend": "cpu", "device": "cpu"}, "a.py::test on cpu", "budget 1 KiB = 16*N\nwithin"),
        ({"budget": "1 KiB"}, "a.py::test on simulated:H100", "budget 1 KiB\nwithin"),
        ({"budget": "O(N)", "limit_bytes": None}, "a.py::test on simulated:H100", "budget O(N)\n"),
        (
            {"outcome": None, "budget": "", "limit_bytes": None, "shape": {}},
            "a.py::test on simulated:H100",
            "measured",
        ),
    ],
)
def test_a_line_of_the_chart_is_one_number_of_one_test_in_one_place(
    changes: dict[str, Any], name: str, extra: str
) -> None:
    (point,) = points(replace(ROW, **changes))
    assert point["name"] == name
    assert extra in point["extra"]


@pytest.mark.parametrize(
    "row",
    [
        replace(ROW, outcome=Outcome.NOT_ENFORCED, reason="a thread was started"),
        replace(ROW, outcome=None, reason="a thread was started"),
        replace(ROW, peak_bytes=None),
    ],
    ids=["not enforced", "not measured", "no number"],
)
def test_what_is_not_to_be_believed_is_no_point(row: Record) -> None:
    assert points(row) == []


def test_of_two_rows_with_one_name_the_larger_counts() -> None:
    assert [point["value"] for point in points(ROW, replace(ROW, peak_bytes=2000))] == [2000]
    assert [point["value"] for point in points(replace(ROW, peak_bytes=2000), ROW)] == [2000]


@settings(deadline=None)  # the machine may be busy
@given(st.lists(records, max_size=3))
def test_any_rows_are_of_the_form(rows: list[Record]) -> None:
    found = points(*rows)
    jsonschema.validate(found, SCHEMA)
    assert len({point["name"] for point in found}) == len(found)
