"""Numbers that are none are refused in one line: a duration beyond a float, a size that is True."""

import json

import pytest

from pytest_attnmem.cli import main
from pytest_attnmem.errors import BudgetError
from pytest_attnmem.report.record import Record, from_dict, to_dict
from pytest_attnmem.symbols.attention_shape import Source, gather


def test_a_duration_beyond_a_float_is_refused_in_one_line(tmp_path, capsys):
    row = {**to_dict(Record("a.py::test", reason="skipped")), "duration_s": 10**400}
    data = {"schema": 1, "environment": {}, "results": [row], "growth": [], "summary": {}}
    path = tmp_path / "rows.json"
    path.write_text(json.dumps(data), "utf-8")
    assert main(["report", str(path), "--html", str(tmp_path / "page.html")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "duration_s=1000" in line
    assert line.endswith(" is not of type float")


def test_a_whole_duration_is_one():
    row = {**to_dict(Record("a.py::test")), "duration_s": 2}
    assert from_dict(row).duration_s == 2


@pytest.mark.parametrize("name", ["N", "seq_len"])
def test_a_size_that_is_true_is_refused(name):
    shape = gather([Source("the test's arguments", {name: True, "causal": True})])
    with pytest.raises(BudgetError) as error:
        shape.read(["N"])
    assert str(error.value) == (
        f"symbol 'N' has no size: {name}=True from the test's arguments; give a whole number"
    )
    assert shape["causal"] == 1


def test_a_marker_with_it_fails_its_test(scripted):
    ran = scripted.tests("""
@pytest.mark.memory_budget("2*N", N=True)
def test_it(): memory.use(2)
""").run()
    assert ran.outcomes == {"errors": 1}
    assert "symbol 'N' has no size: N=True from the marker; give a whole number" in ran.text
