"""``attnmem merge``: whose rows count, and what does not go together."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.cli import main
from pytest_attnmem.report.json import load
from pytest_attnmem.report.record import Record

from .sessions import ENVIRONMENT, ON_CUDA, ROW, write

OVER = replace(ROW, outcome=Outcome.OVER, reason="over", peak_bytes=4096)
SKIPPED = Record("a.py::test", outcome=Outcome.NOT_ENFORCED, reason="skipped: no GPU")
UNPROVEN = replace(ROW, outcome=Outcome.NOT_ENFORCED, reason="a thread was started")
OTHER = replace(ROW, nodeid="b.py::test", peak_bytes=512)


def merged(tmp_path, *shards, **facts):
    paths = [
        write(tmp_path / f"{number}.json", *rows, **facts) for number, rows in enumerate(shards)
    ]
    assert main(["merge", *paths, "-o", str(tmp_path / "all.json")]) == 0
    return [*load(tmp_path / "all.json")[0]]


def test_shards_are_one_session(tmp_path, capsys):
    assert merged(tmp_path, [OTHER], [], [OVER]) == [OVER, OTHER]
    assert capsys.readouterr().out == "attnmem: 2 budgets, 1 within, 1 over, 0 not enforced\n"
    data = json.loads((tmp_path / "all.json").read_text("utf-8"))
    assert data["summary"]["session_peak_bytes"] == 4096
    assert data["environment"] == ENVIRONMENT
    assert [found["nodeid"] for found in data["growth"]] == ["a.py::test", "b.py::test"]


def test_one_shard_is_printed_as_it_was(tmp_path, capfdbinary):
    path = write(tmp_path / "a.json", OVER, OVER, OTHER)
    assert main(["merge", path]) == 0
    assert capfdbinary.readouterr().out == Path(path).read_bytes()


@pytest.mark.parametrize(
    ("rows", "counts"),
    [
        ((ROW, ROW), ROW),
        ((ROW, replace(ROW, duration_s=9.0)), ROW),
        ((ROW, OVER), OVER),
        ((ROW, UNPROVEN), UNPROVEN),
        ((UNPROVEN, OVER), OVER),
        ((ROW, replace(ROW, peak_bytes=1025)), replace(ROW, peak_bytes=1025)),
        ((replace(ROW, outcome=None), ROW), ROW),
    ],
    ids=["same", "slower", "over", "not enforced", "worst", "larger", "held to something"],
)
def test_of_a_test_in_two_shards_the_worse_counts(tmp_path, rows, counts):
    for first, second in (rows, rows[::-1]):
        found = merged(tmp_path, [first], [second])
        assert [replace(row, duration_s=0.0) for row in found] == [counts]


@pytest.mark.parametrize(
    "other",
    [
        replace(ROW, region="x"),
        replace(ROW, metric="retained"),
        replace(ROW, backend="simulated:H100"),
        SKIPPED,
    ],
    ids=["region", "metric", "place", "not measured at all"],
)
def test_rows_of_different_things_are_kept_apart(tmp_path, other):
    assert sorted(map(repr, merged(tmp_path, [ROW], [other]))) == sorted(map(repr, [ROW, other]))


@pytest.mark.parametrize(
    ("first", "changes", "why"),
    [
        ({"torch": "2.6.0"}, {}, "torch is 2.7 in one and 2.6 in the other"),
        (
            ON_CUDA,
            {**ON_CUDA, "device": "NVIDIA A100"},
            "device is 'NVIDIA A100' in one and 'NVIDIA H100' in the other",
        ),
        (
            ON_CUDA,
            {**ON_CUDA, "allocator": None},
            "allocator is None in one and {'backend': 'native'} in the other",
        ),
    ],
    ids=["torch", "device", "allocator"],
)
def test_shards_of_other_environments_are_refused(tmp_path, refusal, first, changes, why):
    paths = [
        write(tmp_path / "a.json", ROW, **first),
        write(tmp_path / "b.json", torch=None, device=None),
        write(tmp_path / "c.json", OTHER, **changes),
    ]
    output = tmp_path / "all.json"
    assert refusal("merge", *paths, "-o", str(output)) == (
        f"cannot merge {paths[2]} with {paths[0]}: {why}, and memory depends on it; merge the"
        " shards of one environment"
    )
    assert not output.exists()


def test_what_memory_does_not_depend_on_may_differ(tmp_path):
    one = write(tmp_path / "a.json", ROW, torch=None, cuda=None, device=None)
    two = write(tmp_path / "b.json", ROW, torch="2.7.0", python="3.10.1", threads=64)
    three = write(tmp_path / "c.json", OTHER, **ON_CUDA)
    output = tmp_path / "all.json"
    assert main(["merge", one, two, three, "-o", str(output)]) == 0
    assert load(output)[1] == ON_CUDA


def test_what_was_counted_is_added_up(tmp_path):
    counts = {"devices": "H100", "unknown_calls": {"f": 1}, "device_reads": 2}
    merged(tmp_path, [ROW], [OTHER], null_device=counts)
    summed = {"devices": "H100", "unknown_calls": {"f": 2}, "device_reads": 4}
    assert load(tmp_path / "all.json")[1]["null_device"] == summed


@pytest.mark.parametrize(
    ("shards", "message"),
    [
        (["none.json"], "cannot read none.json: No such file or directory"),
        (
            ["a.json", "odd.json"],
            "cannot merge a.json, odd.json: TypeError: string indices must be integers, not 'str'"
            " in an environment",
        ),
        (["a.json", "-o", "no/all.json"], "cannot write no/all.json: No such file or directory"),
    ],
    ids=["missing", "odd", "no folder"],
)
def test_what_cannot_be_done_is_one_line(tmp_path, monkeypatch, refusal, shards, message):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "a.json", ROW, null_device={"unknown_calls": {}, "device_reads": 0})
    write(tmp_path / "odd.json", ROW, null_device="odd")
    assert refusal("merge", *shards) == message
