"""The search in a real repository, by a process that reads its results from the files."""

import json
from dataclasses import replace
from pathlib import Path

from pytest_attnmem.bisection.bisection import Bisection, Result
from pytest_attnmem.budgets.tolerance import NONE
from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.cli.bisect import render, to_dict
from pytest_attnmem.commits.commit_files import commit_files
from pytest_attnmem.commits.repository import Repository
from pytest_attnmem.commits.warm_process import Sample
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.record import Record

from ..commits.repositories import Step, commits, repository

ROW = ("t.py::a", "", "peak")


class Process:
    """Measures the number in the file ``bytes``; no number: a broken commit."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.runs = 0

    def run(self, tests, *options) -> Sample:
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
        found = search.run(known[good], known[bad], grew=False, tolerance=NONE)
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
    assert render(found) == [
        f"{known[4]} is the first bad commit",
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
    lines = render(found)
    assert lines[:4] == [
        "the first bad commit is one of 3; those between were skipped:",
        *(f"  {known[n][:10]} 2023-11-1{4 + (n > 1)} Ada: {n}" for n in (1, 2, 3)),
    ]
    assert lines[5:10] == [
        "skipped 2 commits that cannot be measured:",
        f"  {known[1][:10]} 2023-11-14 Ada: 1\n    ImportError: no attn",
        f"  {known[2][:10]} 2023-11-15 Ada: 2\n    ImportError: no x",
        "",
        "measured 5 commits; bad: t.py::a needs more than at the good end",
    ]
    assert to_dict(found)["first_bad"] is None
    assert [one["reason"] for one in to_dict(found)["skipped"]] == [
        "ImportError: no attn",
        "ImportError: no x",
    ]


def test_the_commit_inside_a_merge_is_found(tmp_path):
    steps = sizes("10", "10")
    steps += [replace(step, parents=(1,) * (n == 0)) for n, step in enumerate(sizes("10", "30"))]
    steps += [Step({"other": "4"}, parents=(1,)), Step({"bytes": "30"}, parents=(4, 3)), Step()]
    found, known, _ = find(repository(tmp_path / "r", steps), 0, 6)
    assert found.first_bad.sha == known[3]
    assert [commit.sha for commit in found.through] == [known[5]]
    assert f"  merged by {known[5][:10]} 2023-11-15 Ada: 5" in render(found)


def test_a_merge_of_good_commits_may_be_bad_itself(tmp_path):
    steps = sizes("10", "10")
    steps += [Step({"a": "2"}, parents=(0,)), Step({"bytes": "30"}, parents=(1, 2))]
    found, known, _ = find(repository(tmp_path / "r", steps), 0, 3)
    assert (found.first_bad.sha, found.is_merge) == (known[3], True)
    assert "  it is a merge; the commits that it merges are good on their own" in render(found)


def test_a_commit_that_git_cannot_check_out_is_skipped(tmp_path, monkeypatch):
    folder = repository(tmp_path / "r", sizes("10", "10", "30"))
    monkeypatch.setattr(
        "pytest_attnmem.commits.commit_files.CommitFiles.check_out", _refuse(folder)
    )
    found, known, _ = find(folder, 0, 2)
    assert [(commit.sha, why) for commit, why in found.skipped] == [
        (known[1], "git checkout: no such object")
    ]


def _refuse(folder: Path):
    from pytest_attnmem.commits.commit_files import CommitFiles
    from pytest_attnmem.errors import AttnMemError

    plain, broken = CommitFiles.check_out, commits(folder)[1]

    def check_out(self, commit: str) -> None:
        if commit == broken:
            raise AttnMemError("git checkout: no such object")
        plain(self, commit)

    return check_out
