"""The walk through the documents: its blocks are run, and print what they show."""

import doctest
import re
import shlex
from pathlib import Path

import pytest

from pytest_attnmem.cli import main

PATH = Path(__file__).parents[2] / "docs" / "evidence" / "documents.md"
PAGE = PATH.read_text(encoding="utf-8")
COMMANDS = re.findall(r"^```console\n\$ attnmem (.*)\n((?:.*\n)*?)```$", PAGE, re.MULTILINE)

#: attention_benchmark_report.md; the memory before the backward pass, or OOM.
DOCUMENT = {
    16: ["22.3", "92.3", "1148.6", "OOM", "OOM"],
    32: ["24.1", "99.3", "1176.6", "OOM", "OOM"],
    64: ["27.6", "113.3", "1232.6", "OOM", "OOM"],
    128: ["34.6", "141.3", "1344.6", "OOM", "OOM"],
}


CASES = [
    pytest.param(*case, id=case[0][:40], marks=[pytest.mark.thorough] * ("--backward" in case[0]))
    for case in COMMANDS
]


@pytest.mark.parametrize(("command", "shown"), CASES)
def test_a_command_prints_what_is_shown(command, shown, capsys, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert main(shlex.split(command)) == 0
    assert lines(capsys.readouterr().out) == lines(shown)


def test_the_table_of_memory_is_the_documents():
    """The test above proves that the command prints it."""
    (shown,) = (shown for command, shown in COMMANDS if "16,32,64,128" in command)
    rows = [line.split() for line in shown.splitlines() if line.startswith("textbook  ")]
    found = [(row[1], row[2], "OOM" if row[5] == "OOM" else row[3]) for row in rows]
    assert found == [
        (str(d), N, size)
        for d, sizes in DOCUMENT.items()
        for N, size in zip(("256", "1024", "4096", "8192", "16384"), sizes, strict=True)
    ]


def lines(text):
    return [line.rstrip() for line in text.splitlines()]


def test_the_python_that_is_shown_gives_what_is_shown():
    found = doctest.DocTestParser().get_doctest(PAGE, {}, PATH.name, str(PATH), 0)
    told = []
    results = doctest.DocTestRunner(verbose=False).run(found, out=told.append)
    assert not results.failed, "".join(told)
    assert results.attempted >= 15


def test_every_document_has_its_part():
    listed = re.findall(r"^\| \[(\w+)\]\(#(\w+)\)", PAGE, re.MULTILINE)
    assert len(listed) == 5
    for name, link in listed:
        assert name == link
        assert f"\n## {name}\n" in PAGE
    assert len(COMMANDS) >= 3
