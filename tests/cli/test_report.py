"""``attnmem report``: what a session would have written, from its JSON file."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.cli import main
from pytest_attnmem.report import KINDS

from .sessions import ROW, write

OVER = replace(ROW, outcome=Outcome.OVER, reason="peak 4.0 KiB exceeds budget 2.0 KiB")
OTHER = replace(ROW, nodeid="b.py::test")


@pytest.fixture
def results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    return write(Path("memory.json"), OVER, OTHER)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_of_each_kind_and_the_same_on_standard_output(results, capfdbinary, kind):
    assert main(["report", results, f"--{kind}", "out"]) == 0
    assert capfdbinary.readouterr().out == b""
    assert main(["report", results, f"--{kind}", "-"]) == 0
    assert capfdbinary.readouterr().out == Path("out").read_bytes()


def test_the_json_is_written_again_as_it_was_and_several_are_merged(results):
    write(Path("one.json"), OVER)
    write(Path("two.json"), OTHER)
    for files in ([results], ["one.json", "two.json"]):
        assert main(["report", *files, "--json", "out"]) == 0
        assert Path("out").read_bytes() == Path(results).read_bytes()


def test_without_an_option_the_table_is_printed(results, capsys):
    assert main(["report", results]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.split("  +", lines[4]) == [
        *("a.py::test", "N=64", "cpu", "2.0 KiB", "1.0 KiB", "50.0", "over")
    ]
    assert lines[0] == "attnmem: 2 budgets, 1 within, 1 over, 0 not enforced"


def test_for_github(results, monkeypatch, capsys):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(Path.cwd()))
    assert main(["report", results, "--github", "--root", "sub", "--markdown", "out"]) == 0
    assert capsys.readouterr().out == (
        "::error file=sub/a.py,line=3,title=a.py%3A%3Atest::peak 4.0 KiB exceeds budget 2.0 KiB\n"
    )
    assert Path("summary").read_bytes() == Path("out").read_bytes()


def test_a_name_that_no_terminal_can_show_is_escaped(results, capfdbinary):
    write(Path(results), replace(OVER, nodeid="a.py::test[\udc80]", where="\udc80.py:3"))
    assert main(["report", results, "--github", "--csv", "-"]) == 0
    assert b"file=\\udc80.py,line=3,title=a.py%3A%3Atest[\\udc80]::" in capfdbinary.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.json"], "cannot read none.json: No such file or directory"),
        (["memory.json", "--csv", "no/out"], "cannot write no/out: No such file or directory"),
        (["memory.json", "--github"], "cannot add to $GITHUB_STEP_SUMMARY, .: Is a directory"),
    ],
)
def test_what_cannot_be_done_is_one_line(results, monkeypatch, capsys, arguments, message):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", ".")
    assert main(["report", *arguments]) == 2
    assert capsys.readouterr().err == f"attnmem report: {message}\n"
