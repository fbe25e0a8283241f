"""The JSON file: its schema, reading it back, and refused files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.formulas.exact_arithmetic import MAX_BITS
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.json import load, render
from pytest_attnmem.report.json_types import check_of, checked, json_fields
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise

from .rows import GROWN, OVER, RECORDS, WHOLE, file, records

WRITE = "write it with --attnmem-json"


def written(tmp_path: Path, data: object) -> Path:
    path = tmp_path / "out.json"
    path.write_text(data if isinstance(data, str) else json.dumps(data), "utf-8")
    return path


@settings(deadline=None)  # the machine may be busy
@given(st.lists(records, max_size=3))
def test_any_file_is_written_again_as_it_was(rows: list[Record]) -> None:
    distinct = {(row.name, row.metric, row.backend, row.device): row for row in rows}
    text = render(summarise(distinct.values()), {"torch": None})
    with TemporaryDirectory() as folder:
        read, environment = load(written(Path(folder), text))
    assert read == summarise(distinct.values()).records
    assert render(summarise(read), environment) == text


def test_of_two_rows_of_one_test_the_first_has_what_both_measured_at_other_sizes(
    tmp_path: Path,
) -> None:
    text = render(summarise([WHOLE, WHOLE]), {})
    first, second = load(written(tmp_path, text))[0]
    assert (first.growth, second.growth) == (WHOLE.growth * 2, ())
    assert render(summarise([first, second]), {}) == text


def test_the_summary_adds_up() -> None:
    assert file()["summary"] == {
        "budgets": 2,
        "within": 0,
        "over": 1,
        "not_enforced": 1,
        "expected_failures": 0,
        "measured": 1,
        "session_peak_bytes": 2048,
    }


def test_results_are_sorted_by_test_and_region() -> None:
    text = render(summarise(reversed(RECORDS)), {})
    assert text == render(summarise(RECORDS), {})
    assert [row["region"] for row in json.loads(text)["results"]] == ["", "", "scores"]


@pytest.mark.parametrize("name", ["test[\udc80]", "test[\x00\n\u2028]", "test[é✓]"], ids=ascii)
def test_any_name_can_be_written(tmp_path: Path, name: str) -> None:
    rows = (replace(OVER, nodeid=name),)
    path = written(tmp_path, render(summarise(rows), {}))
    assert load(path)[0] == rows


@pytest.mark.parametrize("schema", [1, 1.0, 1.1, 1.9])
def test_a_newer_minor_is_read(tmp_path: Path, schema: float) -> None:
    data = {**file(), "schema": schema, "energy": {"unit": "J"}}
    data["results"][0]["energy"] = 3
    assert load(written(tmp_path, data))[0] == RECORDS


NEITHER = "'results' is not a list or 'environment' is not an object"
GROWTH = "'growth' is not a list of sizes, peaks and formulas"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        *(
            ({"schema": schema}, f"its schema is {shown}, this version reads 1")
            for schema, shown in (
                *((2, "2"), (0.9, "0.9"), (None, "None"), ("1", "'1'"), (True, "True")),
                *((float("inf"), "inf"), (float("nan"), "nan"), ([1], "[1]")),
                ("x" * 99, f"'{'x' * 61}...'"),
            )
        ),
        ({"results": None}, NEITHER),
        ({"results": {"a": 1}}, NEITHER),
        ({"environment": "ab"}, NEITHER),
        ({"results": [3]}, "not a record of attnmem: TypeError argument of type 'int' is not"),
        ({"results": [{}]}, "not a record of attnmem: KeyError 'outcome'"),
        ({"growth": None}, GROWTH),
        ({"growth": [3]}, GROWTH),
        ({"growth": [{**GROWN, "peaks": [True]}]}, GROWTH),
        ({"growth": [{**GROWN, "sizes": {"N": 3}}]}, GROWTH),
        ({"growth": [{**GROWN, "formula": 3}]}, GROWTH),
    ],
    ids=lambda value: "" if isinstance(value, str) else str(value)[:30],
)
def test_a_file_of_other_content_is_refused(
    tmp_path: Path, changes: dict[str, Any], why: str
) -> None:
    path = written(tmp_path, {**file(), **changes})
    with pytest.raises(AttnMemError) as error:
        load(path)
    told = str(error.value).removesuffix(" iterable").removesuffix(" a container or")  # Python's
    assert told == f"cannot read {path}: {why}"


def lacking(name: str) -> str:
    return json.dumps({key: value for key, value in file().items() if key != name})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", f"it is not JSON: Expecting value: line 1 column 1 (char 0); {WRITE}"),
        (
            '{"schema": 1',
            f"it is not JSON: Expecting ',' delimiter: line 1 column 13 (char 12); {WRITE}",
        ),
        ("[]", "its schema is None, this version reads 1"),
        ("3", "its schema is None, this version reads 1"),
        (lacking("results"), f"it lacks 'results'; {WRITE}"),
        (lacking("environment"), f"it lacks 'environment'; {WRITE}"),
        (None, "No such file or directory"),
        (
            b"\xff\xfe{}",
            "it is not JSON: 'utf-8' codec can't decode byte 0xff in position 0: invalid start"
            f" byte; {WRITE}",
        ),
    ],
    ids=["empty", "cut off", "list", "number", "results", "environment", "missing", "bytes"],
)
def test_what_is_no_file_of_ours_is_refused(
    tmp_path: Path, text: str | bytes | None, why: str
) -> None:
    path = tmp_path / "out.json"
    if text is not None:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    with pytest.raises(AttnMemError) as error:
        load(path)
    assert str(error.value) == f"cannot read {path}: {why}"


LARGEST = 2**MAX_BITS - 1
HELD = Held(64, (2, 8), "float32", "mm", "attn.py:3")

TYPES: list[tuple[Any, list[object], list[object]]] = [
    (str, ["", "\ud800"], [None, 3, b"a"]),
    (bool, [True, False], [0, "true", None]),
    (int, [0, -3, LARGEST], [LARGEST + 1, 1.0, "1", None]),
    (float, [0.5, 3], [10**400, "1", None]),
    (int | None, [None, 3], ["", 1.5]),
    (tuple[int, ...], [(), (1,)], [[1], (1.5,)]),
    (Mapping[str, int], [{}, {"N": 3}], [{"N": None}, ["N"]]),
    (Mapping[str, Any], [{"N": []}], [3]),
    (Outcome | None, [Outcome.OVER, None], ["over"]),
    (Held, [HELD], [None, {}]),
    (Held | None, [HELD, None], [{}]),
]


@pytest.mark.parametrize(("annotation", "right", "wrong"), TYPES, ids=lambda part: "")
def test_an_annotation_states_the_check(
    annotation: Any, right: list[object], wrong: list[object]
) -> None:
    fits = check_of(annotation)
    assert [value for value in right if not fits(value)] == []
    assert [value for value in wrong if fits(value)] == []


@dataclass
class Point:
    """A class with fields to check."""

    size: int
    name: str = ""


def test_a_checked_object_is_returned_or_its_field_value_and_type_are_named() -> None:
    point = Point(3, "a")
    assert checked(point, json_fields(Point)) is point
    with pytest.raises(ValueError, match=r"^name=3 is not of type str$"):
        checked(Point(3, 3), json_fields(Point))  # type: ignore[arg-type]
