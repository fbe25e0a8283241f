"""What is kept between runs, and what a damaged or full disk does to it."""

import pytest

from pytest_attnmem.history.kept_results import KeptResults, kept_results
from pytest_attnmem.history.project_history import Cause, Measured, TensorChange

CAUSE = Cause(1, 3, "+2 B", (TensorChange("+2 B  mm", "mm float32 [2]", 2, "+2 B mm a.py:1", "x"),))


def test_results_are_read_again(tmp_path):
    path = tmp_path / "cache" / "x.jsonl"
    kept = KeptResults(path)
    assert kept.measured("tree") is None
    kept.keep("tree", Measured({"a": 1}, {"b": "no"}, {"torch._six": "removed"}))
    kept.keep("unfinished", Measured(), write=False)
    kept.keep_cause("a", "old", "new", cause=CAUSE)
    again = KeptResults(path)
    assert (
        again.measured("tree")
        == kept.measured("tree")
        == Measured({"a": 1}, {"b": "no"}, {"torch._six": "removed"})
    )
    assert again.measured("unfinished") is None
    assert again.cause("a", "old", "new") == CAUSE
    assert again.cause("b", "old", "new") is None


@pytest.mark.parametrize("end", ['{"key": "t', "[]", "null", '{"key": "t", "measured": {"x": 1}}'])
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

    def full(*arguments, **keywords):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
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
