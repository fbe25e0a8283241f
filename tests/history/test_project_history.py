"""The file of a history, and what is no such file."""

import json

import pytest

from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.history.project_history import (
    Cause,
    Measured,
    TensorChange,
    read_history,
    to_json,
)
from pytest_attnmem.history.steps import find_steps

from .histories import ROW, chain, history


def test_a_history_is_read_as_it_was_written(tmp_path):
    from dataclasses import replace

    points = chain(10, None, 12)
    cause = Cause(10, 12, "+2 B", (TensorChange("+2 B  mm", "mm", 2),))
    steps = tuple(replace(step, cause=cause) for step in find_steps(points, [ROW]))
    made = history(points, steps=steps)
    path = tmp_path / "h.json"
    path.write_text(to_json(made), "utf-8")
    assert read_history(path) == made
    assert made.steps[0].is_confirmed
    assert made.steps[0].delta == 2


@pytest.mark.parametrize("text", ["", "[]", "[" * 10_000, '{"schema": 1, "results": []}'])
def test_another_file_is_none(tmp_path, text):
    path = tmp_path / "h.json"
    path.write_text(text, "utf-8")
    assert read_history(path) is None
    assert read_history(tmp_path / "absent.json") is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"schema": 2},
            "h.json: expected a history of schema 1, got 2; use the version of attnmem",
        ),
        ({"schema": 1}, "h.json: cannot read this history: KeyError: 'points'"),
        ({"schema": 1, "points": [{}]}, "h.json: cannot read this history: KeyError: 'measured'"),
    ],
)
def test_another_version_is_refused(tmp_path, data, message):
    path = tmp_path / "h.json"
    path.write_text(json.dumps({"kind": "history", **data}), "utf-8")
    with pytest.raises(AttnMemError) as error:
        read_history(path)
    assert str(error.value).startswith(f"{tmp_path}/{message}")


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("points", {"sha": 1}, "ValueError: sha=1 is not of type str"),
        ("points", {"date": "today"}, "ValueError: Invalid isoformat string: 'today'"),
        ("points", {"measured": {"values": {ROW: "3"}}}, "ValueError: values={'t.py::a': '3'} is"),
        ("steps", {"before": None}, "ValueError: before=None is not of type int"),
        ("steps", {"sha": "9"}, "ValueError: a step of 't.py::a' is at a commit that is not in it"),
        ("steps", {"row": "x"}, "ValueError: a step is of 'x', which no commit has"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, part, changes, message):
    points = chain(10, 12)
    data = json.loads(to_json(history(points, steps=tuple(find_steps(points, [ROW])))))
    data[part][-1].update(changes)
    path = tmp_path / "h.json"
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(AttnMemError) as error:
        read_history(path)
    assert str(error.value).startswith(f"{path}: cannot read this history: {message}")


def test_the_reason_of_a_row_is_its_own_its_tests_or_that_of_all():
    measured = Measured(gaps={"t.py::a": "too old", "": "ImportError: x"})
    assert measured.gap("t.py::a") == "too old"
    assert measured.gap("t.py::a [inner] (retained)") == "too old"
    assert measured.gap("t.py::b") == "ImportError: x"
    assert Measured().gap("t.py::b") == "no such test"
