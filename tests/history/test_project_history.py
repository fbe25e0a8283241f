"""The file of a history, and what is no such file."""

import json
from dataclasses import replace
from unittest.mock import Mock

import pytest

from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.history.kept_results import KeptResults, kept_results
from pytest_attnmem.history.project_history import (
    Cause,
    Measured,
    TensorChange,
    read_history,
    to_json,
)
from pytest_attnmem.history.shards import merged
from pytest_attnmem.history.steps import find_steps

from .histories import ROW, chain, history


def test_a_history_is_read_as_it_was_written(tmp_path):
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


DAMAGED = "cannot read this history: "


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        ("", {"schema": 2}, "expected a history of schema 1, got 2; use the version of attnmem"),
        ("", {"points": [{"sha": "1"}]}, f"{DAMAGED}KeyError: 'parents'"),
        ("points", {"sha": 1}, f"{DAMAGED}ValueError: sha=1 is not of type str"),
        ("points", {"date": "today"}, f"{DAMAGED}ValueError: Invalid isoformat string: 'today'"),
        (
            "points",
            {"measured": {"values": {ROW: "3"}}},
            f"{DAMAGED}ValueError: values={{'t.py::a'",
        ),
        ("steps", {"before": None}, f"{DAMAGED}ValueError: before=None is not of type int"),
        ("steps", {"sha": "9"}, f"{DAMAGED}ValueError: a step of 't.py::a' is at a commit that is"),
        ("steps", {"row": "x"}, f"{DAMAGED}ValueError: a step is of 'x', which no commit has"),
    ],
)
def test_another_version_or_a_damaged_file_is_refused(tmp_path, part, changes, message):
    points = chain(10, 12)
    data = json.loads(to_json(history(points, steps=tuple(find_steps(points, [ROW])))))
    (data[part][-1] if part else data).update(changes)
    path = tmp_path / "h.json"
    path.write_text(json.dumps(data), "utf-8")
    with pytest.raises(AttnMemError) as error:
        read_history(path)
    assert str(error.value).startswith(f"{path}: {message}")


def test_the_reason_of_a_row_is_its_own_its_tests_or_that_of_all():
    measured = Measured(gaps={"t.py::a": "too old", "": "ImportError: x"})
    assert measured.gap("t.py::a") == "too old"
    assert measured.gap("t.py::a [inner] (retained)") == "too old"
    assert measured.gap("t.py::b") == "ImportError: x"
    assert Measured().gap("t.py::b") == "no such test"


def test_a_step_between_two_parts_is_found_and_known_causes_stay():
    points = chain(10, 12, None, 15, 15)
    first = [replace(step, cause=Cause(10, 12)) for step in find_steps(points[:3], [ROW])]
    before = replace(points[2], parents=())
    parts = [history([before, *points[3:]]), history(points[:3], steps=tuple(first))]
    whole = merged(parts)
    assert whole.points == tuple(points)
    causes = [(step.sha, step.gaps, step.cause) for step in whole.steps]
    assert causes == [("1", (), Cause(10, 12)), ("3", ("2",), None)]


def test_parts_of_different_environments_and_circles_are_not_joined():
    one = history(chain(10))
    other = replace(one, facts={**one.facts, "torch": "2.14.0"})
    with pytest.raises(AttnMemError) as error:
        merged([one, other])
    assert str(error.value) == (
        "cannot merge these histories: torch is '2.13.0' in one and '2.14.0' in the other"
    )
    first, second = chain(10, 12)
    with pytest.raises(AttnMemError, match=r"^cannot merge these histories: commit '[01]' follows"):
        merged([history([replace(first, parents=("1",)), second])])


CAUSE = Cause(1, 3, "+2 B", (TensorChange("+2 B  mm", "mm float32 [2]", 2, "+2 B mm a.py:1", "x"),))


def test_results_are_read_again(tmp_path):
    path = tmp_path / "cache" / "x.jsonl"
    kept = KeptResults(path)
    assert kept.measured("tree") is None
    found = Measured({"a": 1}, {"b": "no"}, {"torch._six": "removed"})
    kept.keep("tree", found)
    kept.keep("unfinished", Measured(), write=False)
    kept.keep_cause("a", "old", "new", cause=CAUSE)
    again = KeptResults(path)
    assert again.measured("tree") == kept.measured("tree") == found
    assert again.measured("unfinished") is None
    assert again.cause("a", "old", "new") == CAUSE
    assert again.cause("b", "old", "new") is None


@pytest.mark.parametrize(
    "end", ['{"key": "t', "[]", "null", '{"key": "t", "measured": {"used": 1}}']
)
def test_the_line_of_a_killed_run_is_left_out(tmp_path, end):
    path = tmp_path / "x.jsonl"
    KeptResults(path).keep("one", Measured({"a": 1}))
    with path.open("a", encoding="utf-8") as file:
        file.write(f"\n{end}")
    kept = KeptResults(path)
    kept.keep("two", Measured({"a": 2}))
    again = KeptResults(path)
    assert (again.measured("one"), again.measured("t")) == (Measured({"a": 1}), None)
    assert again.measured("two") == Measured({"a": 2})


def test_a_full_disk_is_told_and_the_run_goes_on(tmp_path, monkeypatch):
    path = tmp_path / "x.jsonl"
    kept = KeptResults(path)
    with monkeypatch.context() as patch:
        full = Mock(side_effect=OSError(28, "No space left on device"))
        patch.setattr("pathlib.Path.open", full)
        kept.keep("one", Measured({"a": 1}))
    assert kept.measured("one") == Measured({"a": 1})
    assert kept.problem == f"{path}: No space left on device"
    kept.keep("two", Measured())
    assert not path.exists()


def test_other_tests_or_packages_have_other_results(tmp_path, monkeypatch):
    def file(*setting):
        kept_results(tmp_path, setting).keep("tree", Measured())
        return {path.name for path in tmp_path.iterdir()}

    first = file("cpu", ["test_a.py"])
    assert file("cpu", ["test_a.py"]) == first
    assert len(file("cpu", ["test_b.py"])) == 2
    monkeypatch.setattr("pytest_attnmem.history.kept_results.distributions", list)
    assert len(file("cpu", ["test_a.py"])) == 3
