"""Annotations and the job's summary, as GitHub Actions reads them."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.report.github import SUMMARY_LIMIT, add_to_step_summary, workflow_commands
from pytest_attnmem.report.markdown import render
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise

from .rows import records

ROOT = Path("/build/repo")
OVER = Record(
    "tests/test_attn.py::test_it[a,b]",
    outcome=Outcome.OVER,
    reason="peak 2 B exceeds budget 1 B by 100% on cuda:0",
    limit_bytes=1,
    peak_bytes=2,
    shape={"N": 2},
    where="tests/test_attn.py:12",
)
SKIPPED = Record("a.py::test", outcome=Outcome.NOT_ENFORCED, reason="skipped: no GPU")
WITHIN = replace(OVER, outcome=Outcome.WITHIN, reason="")


def commands(*rows: Record, root: Path = ROOT, **environ: str) -> list[str]:
    return [*workflow_commands(summarise(rows), root, environ)]


def test_what_is_over_is_an_error_and_what_is_not_enforced_a_warning() -> None:
    measured = replace(WITHIN, outcome=None, region="x")
    assert commands(SKIPPED, WITHIN, measured, OVER) == [
        "::error file=tests/test_attn.py,line=12,title=tests/test_attn.py%3A%3Atest_it[a%2Cb]"
        "::peak 2 B exceeds budget 1 B by 100%25 on cuda:0",
        "::warning file=a.py,title=a.py%3A%3Atest::memory budget not enforced: skipped: no GPU",
    ]


def test_the_worst_comes_first_for_github_shows_only_some() -> None:
    rows = [replace(OVER, nodeid=f"t{peak}", peak_bytes=peak) for peak in (3, 9, 6)]
    assert [command.partition("title=")[2][:2] for command in commands(*rows)] == ["t9", "t6", "t3"]


def test_an_error_tells_what_grew_and_then_the_largest_that_were_held() -> None:
    held = tuple(Held(8 - size, (2, 8), "float32", "mm", "attn.py:3") for size in range(5))
    (command,) = commands(replace(OVER, held=held))
    largest = (
        "%0A    8 B  [2, 8] float32  mm  attn.py:3"
        "%0A    7 B  [2, 8] float32  mm  attn.py:3%0A    6 B  [2, 8] float32  mm  attn.py:3"
    )
    assert command.endswith(f"on cuda:0{largest}")
    grew = "  grew      +1 B: one more uint8 [1], clone at attn.py:4"
    (command,) = commands(replace(OVER, held=held, explanation=(grew,), baseline_bytes=1))
    assert command.endswith(f"on cuda:0%0A{grew}%0A  baseline  1 B{largest}")


@pytest.mark.parametrize(
    ("root", "workspace", "where", "file"),
    [
        ("/build/repo", "/build/repo", "tests/a.py:3", "tests/a.py"),
        ("/build/repo/sub", "/build/repo", "tests/a.py:3", "sub/tests/a.py"),
        ("/build/repo/sub", "/build/repo", "../tests/a.py:3", "tests/a.py"),
        ("/build/repo", "/build/repo", "/build/repo/a.py:3", "a.py"),
        ("/build/repo", "/elsewhere", "tests/a.py:3", "tests/a.py"),
        ("/build/repo", "/build/rep", "tests/a.py:3", "tests/a.py"),
        ("/build/repo", "", "tests/a.py:3", "tests/a.py"),
        ("/build/repo", "/build/repo", "a,b:c%.py:3", "a%2Cb%3Ac%25.py"),
    ],
)
def test_the_file_is_told_from_the_root_of_the_repository(
    root: str, workspace: str, where: str, file: str
) -> None:
    row = replace(OVER, where=where)
    (command,) = commands(row, root=Path(root), GITHUB_WORKSPACE=workspace)
    assert command.startswith(f"::error file={file},line=3,title=")


def test_a_workspace_may_be_called_by_another_name(tmp_path: Path) -> None:
    (tmp_path / "real" / "sub").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real")
    (command,) = commands(
        OVER, root=tmp_path / "real" / "sub", GITHUB_WORKSPACE=str(tmp_path / "link")
    )
    assert command.startswith("::error file=sub/tests/test_attn.py,line=12,")


@settings(deadline=None)  # the machine may be busy
@given(st.lists(records, max_size=3))
def test_any_row_is_one_command_on_one_line(rows: list[Record]) -> None:
    for command in commands(*rows, GITHUB_WORKSPACE="/build"):
        match = re.fullmatch(r"::(error|warning) ([^\r\n]*?)::([^\r\n]*)", command)
        for told in match[2].split(","):
            assert re.fullmatch(r"(file|line|title)=[^:,]*", told)
        assert not re.search("%(?!25|0D|0A|3A|2C)", command)


def test_the_markdown_is_added_to_what_the_summary_has(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    summary = summarise([OVER, WITHIN])
    add_to_step_summary(summary, {"GITHUB_STEP_SUMMARY": str(path)})
    text = render(summary, {})
    assert path.read_text("utf-8") == text
    add_to_step_summary(summary, {"GITHUB_STEP_SUMMARY": str(path)})
    assert path.read_text("utf-8") == f"{text}\n{text}"


def test_elsewhere_than_on_github_there_is_no_summary(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    for environ in ({}, {"GITHUB_STEP_SUMMARY": ""}):
        add_to_step_summary(summarise([OVER]), environ)
        assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("taken", "count"), [(0, 10_000), (SUMMARY_LIMIT - 5_000, 100)], ids=["empty", "nearly full"]
)
def test_a_summary_is_never_more_than_github_takes(tmp_path: Path, taken: int, count: int) -> None:
    path = tmp_path / "summary"
    path.write_bytes(b"x" * taken)
    rows = [replace(WITHIN, nodeid=f"a.py::test_é[{number:080}]") for number in range(count)]
    add_to_step_summary(summarise(rows), {"GITHUB_STEP_SUMMARY": str(path)})
    assert SUMMARY_LIMIT - 1_000 < path.stat().st_size <= SUMMARY_LIMIT
    assert re.search(r"^\d+ more rows left out: \d+ within\.$", path.read_text("utf-8"), re.M)


def test_a_summary_that_is_full_or_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "summary"
    path.write_bytes(b"x" * SUMMARY_LIMIT)
    with pytest.raises(AttnMemError) as error:
        add_to_step_summary(summarise([OVER]), {"GITHUB_STEP_SUMMARY": str(path)})
    assert str(error.value) == (
        f"cannot add to $GITHUB_STEP_SUMMARY, {path}: a step's summary is at most 1 MiB, and"
        " other commands of the step filled it; run this command in a step of its own"
    )
    assert path.stat().st_size == SUMMARY_LIMIT
    with pytest.raises(AttnMemError) as error:
        add_to_step_summary(summarise([OVER]), {"GITHUB_STEP_SUMMARY": str(tmp_path)})
    assert str(error.value) == f"cannot add to $GITHUB_STEP_SUMMARY, {tmp_path}: Is a directory"
