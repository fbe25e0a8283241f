"""The search in a real repository, by a process that reads its results from the files."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_attnmem.baselines.entries import row_name
from pytest_attnmem.bisection.bisection import (
    Bisection,
    Found,
    Result,
    State,
    criterion,
    search,
)
from pytest_attnmem.budgets.tolerance import NONE, parse_tolerance
from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.cli.bisect import render, to_dict
from pytest_attnmem.commits.commit_files import CommitFiles, commit_files
from pytest_attnmem.commits.repository import Repository
from pytest_attnmem.commits.warm_process import Sample
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.record import Record

from ..commits.repositories import Step, commits, repository

ROW = ("t.py::a", "", "peak")


class Process:
    """Measures the number in the file ``bytes``; no number: a broken commit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.runs = 0

    def sample(self, tests, *options) -> Sample:
        self.runs += 1
        text = self._path.joinpath("bytes").read_text("utf-8")
        if not text.isdigit():
            return Sample(problem=f"ImportError: {text}")
        tensor = Held(int(text), (int(text),), "uint8", "empty", "attn.py:7", "attention")
        held = (tensor,) if "--attnmem-explain=all" in options else ()
        row = Record("t.py::a", outcome=Outcome.WITHIN, peak_bytes=int(text), held=held,
                     backend="simulated:H100", device="cuda:0")  # fmt: skip
        return Sample({ROW: row})


def find(folder: Path, good: int, bad: int) -> tuple[Result, list[str], int]:
    repository, known = Repository(folder), commits(folder)
    said: list[str] = []
    with commit_files(repository) as files:
        process = Process(files.path)
        search = Bisection(repository, files, process, (), said.append)  # type: ignore[arg-type]
        found = search.between(known[good], known[bad], grew=False, tolerance=NONE)
    assert all(text.startswith(("measured ", "comparing ")) for text in said)
    return found, known, process.runs


def sizes(*texts: str) -> list[Step]:
    return [Step({"bytes": text}) for text in texts]


def test_the_answer_comes_first_with_the_test_and_its_lines(tmp_path):
    steps = sizes("10", "10", "no attn", "10", "30", "30", "30")
    steps[4].author = "Grace"
    found, known, runs = find(repository(tmp_path / "r", steps), 0, 6)
    assert (found.first_bad.sha, found.is_merge, found.through) == (known[4], False, ())
    assert runs == len(found.samples) + 2
    [culprit] = found.culprits
    assert (culprit.row, culprit.before.value, culprit.after.value) == (ROW, 10, 30)
    assert render(found, "simulated:H100") == [
        f"{known[4]} is the first bad commit, measured on simulated:H100",
        "  author  Grace",
        "  date    2023-11-15",
        "  title   4",
        "",
        "t.py::a",
        "  10 B → 30 B (+20 B) on simulated:H100",
        "  at the peak:",
        "    +30 B  [30] uint8 empty  attn.py:7 in attention",
        "    -10 B  [10] uint8 empty  attn.py:7 in attention",
        "",
        "measured 4 commits; bad: t.py::a needs more than at the good end",
    ]
    assert json.loads(json.dumps(to_dict(found)))["first_bad"]["sha"] == known[4]


def test_commits_that_cannot_be_measured_are_named(tmp_path):
    found, known, _ = find(
        repository(tmp_path / "r", sizes("10", "no attn", "no x", "30", "30")), 0, 4
    )
    lines = render(found, "cpu")
    assert lines[:4] == [
        "the first bad commit is one of 3, measured on cpu; those between were skipped:",
        *(f"  {known[n][:10]} 2023-11-1{4 + (n > 1)} Ada: {n}" for n in (1, 2, 3)),
    ]
    assert lines[5:10] == [
        "skipped 2 commits that cannot be measured:",
        f"  {known[1][:10]} 2023-11-14 Ada: 1\n    ImportError: no attn",
        f"  {known[2][:10]} 2023-11-15 Ada: 2\n    ImportError: no x",
        "",
        "measured 5 commits; bad: t.py::a needs more than at the good end",
    ]
    data = to_dict(found)
    assert data["first_bad"] is None
    reasons = [one["reason"] for one in data["skipped"]]
    assert reasons == ["ImportError: no attn", "ImportError: no x"]


def test_the_commit_inside_a_merge_is_found(tmp_path):
    steps = sizes("10", "10")
    steps += [replace(step, parents=(1,) * (n == 0)) for n, step in enumerate(sizes("10", "30"))]
    steps += [Step({"other": "4"}, parents=(1,)), Step({"bytes": "30"}, parents=(4, 3)), Step()]
    found, known, _ = find(repository(tmp_path / "r", steps), 0, 6)
    assert found.first_bad.sha == known[3]
    assert [commit.sha for commit in found.through] == [known[5]]
    assert f"  merged by {known[5][:10]} 2023-11-15 Ada: 5" in render(found, "cpu")


def test_a_merge_of_good_commits_may_be_bad_itself(tmp_path):
    steps = sizes("10", "10")
    steps += [Step({"a": "2"}, parents=(0,)), Step({"bytes": "30"}, parents=(1, 2))]
    found, known, _ = find(repository(tmp_path / "r", steps), 0, 3)
    assert (found.first_bad.sha, found.is_merge) == (known[3], True)
    told = "  it is a merge; the commits that it merges are good on their own"
    assert told in render(found, "cpu")


def test_a_commit_that_git_cannot_check_out_is_skipped(tmp_path, monkeypatch):
    folder = repository(tmp_path / "r", sizes("10", "10", "30"))
    plain, broken = CommitFiles.check_out, commits(folder)[1]

    def check_out(self, commit: str) -> None:
        if commit == broken:
            raise AttnMemError("git checkout: no such object")
        plain(self, commit)

    monkeypatch.setattr(CommitFiles, "check_out", check_out)
    found, _, _ = find(folder, 0, 2)
    skipped = [(commit.sha, why) for commit, why in found.skipped]
    assert skipped == [(broken, "git checkout: no such object")]


A, B = ("t.py::a", "", "peak"), ("t.py::b", "", "peak")


def row(nbytes, limit=None) -> Record:
    over = limit is not None and nbytes > limit
    outcome = Outcome.OVER if over else Outcome.WITHIN
    limits = {"peak_bytes": nbytes, "limit_bytes": limit}
    return Record("t.py::a", outcome=outcome, backend="simulated:H100", **limits)


def sample(problem="", **rows) -> Sample:
    return Sample({("t.py::" + name, "", "peak"): one for name, one in rows.items()}, problem)


def test_a_budget_decides_if_only_the_bad_end_exceeds_it():
    rule = criterion(sample(a=row(10, 20), b=row(1, 9)), sample(a=row(30, 20), b=row(8, 9)),
                     False, NONE)  # fmt: skip
    assert rule.by_budget
    assert rule.levels == {A: None}
    assert rule.state(sample(a=row(20, 20), b=row(8, 9))) is State.GOOD
    assert rule.state(sample(a=row(21, 20))) is State.BAD
    assert rule.state(sample("broken", b=row(8, 9))) is State.SKIPPED
    assert rule.why_skipped(sample("broken")) == "broken"
    assert rule.why_skipped(sample(b=row(8, 9))) == "t.py::a was not measured"


def test_growth_decides_otherwise_or_if_asked():
    ends = sample(a=row(10), b=row(5, 9)), sample(a=row(11), b=row(10, 9))
    assert criterion(*ends, False, NONE).levels == {B: None}
    assert criterion(*ends, True, NONE).levels == {A: 10, B: 5}
    assert criterion(*ends, True, parse_tolerance("2B")).levels == {B: 7}
    rule = criterion(*ends, True, NONE)
    assert rule.state(sample(a=row(10), b=row(5))) is State.GOOD
    assert rule.state(sample(a=row(10), b=row(6))) is State.BAD
    assert rule.bad_rows(sample(a=row(11), b=row(12))) == [B, A]
    full = replace(row(0), out_of_memory="128 GiB", outcome=Outcome.OVER)
    assert rule.state(sample(a=full)) is State.BAD
    exceeded = criterion(sample(a=row(30, 20)), sample(a=row(40, 20)), True, NONE)
    assert exceeded.levels == {A: 30}


@pytest.mark.parametrize(
    ("good", "bad", "grew", "message"),
    [
        (
            sample(a=row(30, 20), b=row(5)),
            sample(a=row(40, 20), b=row(9)),
            False,
            "t.py::a is over its budget at the good end already, on simulated:H100; name an earlier"
            " good commit or another --backend; --grew finds what grew since",
        ),
        (
            sample(a=row(30, 20)),
            sample(a=row(30, 20)),
            True,
            "t.py::a is over its budget at the good end already, and did not grow; name an earlier"
            " good commit",
        ),
        (
            sample(a=row(10), b=row(5)),
            sample(a=row(10), b=row(4)),
            False,
            "the bad end is good: of 2 results none is over its budget or grew since the good end",
        ),
        (
            sample("ModuleNotFoundError: No module named 'x'"),
            sample(a=row(1)),
            False,
            "nothing was measured at the good end: ModuleNotFoundError: No module named 'x';"
            " --tests-from bad runs the bad end's tests there",
        ),
        (sample(a=row(1)), sample(), False, "nothing was measured at the bad end: no test ran"),
        (
            sample(a=row(1)),
            sample(b=row(1)),
            False,
            "t.py::b is not measured at the good end; --tests-from bad runs the bad end's tests at"
            " every commit",
        ),
    ],
)
def test_ends_that_cannot_be_told_apart_are_refused(good, bad, grew, message):
    with pytest.raises(AttnMemError) as error:
        criterion(good, bad, grew, NONE)
    assert str(error.value) == message


def test_a_row_is_named_with_its_region_and_metric():
    assert row_name(A) == "t.py::a"
    assert row_name(("t.py::a", "forward", "retained")) == "t.py::a [forward] (retained)"


STATES = {"g": State.GOOD, "b": State.BAD, "-": State.SKIPPED}


def look(commits: str) -> tuple[Found, list[int]]:
    seen = []

    def state(number: int) -> State:
        seen.append(number)
        return STATES[commits[number]]

    return search(len(commits), state), seen


@pytest.mark.parametrize("first", range(1, 128))
def test_128_commits_take_seven_measurements_and_the_ends(first):
    found, seen = look("g" * first + "b" * (128 - first))
    assert (found.good, found.bad, [*found.candidates]) == (first - 1, first, [first])
    assert len(seen) <= 7


@pytest.mark.parametrize(
    ("commits", "candidates"),
    [
        ("gb", [1]),
        ("g-b", [1, 2]),
        ("gg-b", [2, 3]),
        ("g---b", [1, 2, 3, 4]),
        ("gggg-bbbb", [4, 5]),
        ("gg-g-bb-b", [4, 5]),
        ("g-gbb-b", [3]),
    ],
)
def test_a_commit_that_cannot_be_measured_leaves_candidates(commits, candidates):
    found, seen = look(commits)
    assert [*found.candidates] == candidates
    assert len(seen) == len({*seen})
