"""Files about failures: their number, their names, and directories that are refused."""

import json
import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.timeline import Allocation, Timeline
from pytest_attnmem.report.artifacts import joined, stem, write_snapshot, write_traces
from pytest_attnmem.report.record import Record

LIVES = Timeline(1, (Allocation(Held(8, (2,), "int32", "sum", ""), 0, None),))
OVER = Record("test_a.py::test_it", outcome=Outcome.OVER, timeline=LIVES)


def test_what_failed_has_a_trace_and_nothing_else_has(tmp_path: Path) -> None:
    rows = [
        OVER,
        replace(OVER, region="scores"),
        replace(OVER, nodeid="b", outcome=Outcome.WITHIN),
        replace(OVER, nodeid="c", outcome=Outcome.WITHIN, baseline_state="regressed"),
        replace(OVER, nodeid="d", timeline=None),
        replace(OVER, nodeid="e", outcome=None),
        replace(OVER, nodeid="a[\udcff-é-<script>]"),
    ]
    write_traces(tmp_path / "new" / "evidence", rows)
    written = sorted((tmp_path / "new" / "evidence").iterdir())
    assert [path.name.rpartition("-")[0] for path in written] == [
        *("a-script", "c", "test_a.py-test_it", "test_a.py-test_it-scores")
    ]
    for path in written:
        assert path.name.endswith(".trace.json")
        assert json.loads(path.read_text("ascii"))["traceEvents"]
    write_traces(tmp_path / "none", [])
    assert [*(tmp_path / "none").iterdir()] == []


@pytest.mark.parametrize(
    ("row", "readable"),
    [
        (OVER, "test_a.py-test_it"),
        (replace(OVER, metric="retained"), "test_a.py-test_it-retained"),
        (Record("../../etc/passwd::x"), "etc-passwd-x"),
        (Record("a/b.py::T::test[x/../y]"), "a-b.py-T-test-x-..-y"),
        (Record("x" * 500), "x" * 80),
        (Record("é"), ""),
        (Record(""), ""),
    ],
)
def test_a_name_is_readable(row: Record, readable: str) -> None:
    plain, _, number = stem(row).rpartition("-")
    assert plain == readable
    assert len(number) == 12
    assert stem(row) != stem(replace(row, metric="reserved"))


@given(*[st.builds(Record, st.text(max_size=200), st.text(max_size=9))] * 2)
def test_a_name_is_safe_and_no_other_rows(one: Record, other: Record) -> None:
    name = stem(one)
    assert len(name) < 100
    assert name.replace("-", "").replace(".", "").replace("_", "").isalnum()
    assert name.isascii()
    assert name[0] not in "-."
    assert (name == stem(other)) is (one == other)


def snapshot(name: str, *traces: list[int]) -> dict:
    return {"segments": [name], "device_traces": [*traces], "external_annotations": []}


def test_snapshots_are_joined_to_the_last_and_all_that_happened(tmp_path: Path) -> None:
    parts = [snapshot("first", [], [1, 2]), snapshot("last", [], [3])]
    whole = snapshot("last", [], [1, 2, 3])
    assert joined(parts) == whole
    write_snapshot(tmp_path / "new", OVER, parts)
    (path,) = (tmp_path / "new").iterdir()
    assert path.name == f"{stem(OVER)}.snapshot.pickle"
    assert pickle.loads(path.read_bytes()) == whole


@pytest.mark.parametrize(
    ("write", "ending"),
    [
        (write_traces, "trace.json"),
        (lambda d, rows: write_snapshot(d, rows[0], [snapshot("", [])]), "snapshot.pickle"),
    ],
    ids=["trace", "snapshot"],
)
def test_what_cannot_be_written_is_told_in_one_line(write, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"{stem(OVER)}.{ending}"
    path.mkdir()
    with pytest.raises(AttnMemError) as error:
        write(tmp_path, [OVER])
    assert str(error.value) == f"cannot write {path}: Is a directory"
    tmp_path.joinpath("file").touch()
    with pytest.raises(AttnMemError) as error:
        write(tmp_path / "file" / "evidence", [OVER])
    assert str(error.value) == f"cannot create {tmp_path}/file/evidence: Not a directory"
