"""The report files of a session, and its annotations for GitHub."""

import csv
import io
import json
import shutil
from xml.etree import ElementTree

import jsonschema
import pytest

from pytest_attnmem.cli import main
from pytest_attnmem.report import KINDS

SUITE = """
import pytest
from scripted import memory

@pytest.mark.memory_budget("4*N")
@pytest.mark.parametrize("N", [1, 2, 3])
def test_within(N): memory.use(3 * N)

@pytest.mark.memory_budget(100)
def test_over(): memory.use(101)

@pytest.mark.memory_budget(100)
@pytest.mark.skip(reason="later | <b>@you")
def test_skipped(): pass

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
def test_grows(N): memory.use(N * N)

def test_region(attnmem):
    with attnmem.region("part"):
        memory.use(3)
"""
HOSTILE = """
import pytest
from scripted import memory

IDS = ["<script>alert(1)</script>", "a|b`c", "]]>", "=1+1", "@you", "%0A::error::x", "\\x00\\n\\r"]

@pytest.mark.memory_budget(100)
@pytest.mark.parametrize("peak", [101] * len(IDS), ids=IDS)
def test_over(peak): memory.use(peak)
"""


@pytest.fixture
def everything(scripted, monkeypatch):
    """Options for every file, and none of what GitHub would set."""
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    return [f"--attnmem-{kind}={scripted.path / kind}" for kind in KINDS if kind != "json"]


def test_files_are_what_the_command_writes_from_the_json(scripted, everything, monkeypatch):
    scripted.write(SUITE)
    scripted.run(*everything, "--attnmem-github")
    monkeypatch.chdir(scripted.path)
    for kind in KINDS:
        assert main(["report", "rows.json", f"--{kind}", "again"]) == 0
        written = "rows.json" if kind == "json" else kind
        assert scripted.path.joinpath("again").read_bytes() == (
            scripted.path.joinpath(written).read_bytes()
        )


def test_a_session_is_of_the_schema(scripted):
    from importlib.resources import files

    scripted.write(SUITE)
    ran = scripted.run()
    schema = json.loads(files("pytest_attnmem.report").joinpath("schema.json").read_text("utf-8"))
    data = json.loads(scripted.path.joinpath("rows.json").read_text("utf-8"))
    jsonschema.validate(data, schema)
    assert ran.row("test_grows[64]")["where"] == "test_suite.py:16"
    assert [found["nodeid"] for found in data["growth"]] == ["test_suite.py::test_grows[64]"]


def test_the_csv_has_the_numbers_of_the_json(scripted, everything):
    scripted.write(SUITE)
    ran = scripted.run(*everything)
    text = scripted.path.joinpath("csv").read_bytes().decode()
    lines = [*csv.DictReader(io.StringIO(text, newline=""))]
    assert [line["nodeid"] for line in lines] == [row["nodeid"] for row in ran.rows]
    for line, row in zip(lines, ran.rows, strict=True):
        for name, cell in line.items():
            if name.endswith("_bytes"):
                assert (int(cell) if cell else None) == row[name]


def test_annotations_are_the_last_lines_and_the_summary_is_the_markdown(
    scripted, everything, monkeypatch
):
    summary = scripted.path / "summary"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(scripted.path.parent))
    scripted.write(SUITE)
    ran = scripted.run(*everything, "--attnmem-github", shown=("-q",))
    lines = ran.result.outlines
    place = lines.index(ran.line)  # a reason for a test that was not enforced follows
    folder = scripted.path.name
    assert [line.partition("::")[2].partition(",title=")[0] for line in lines[place + 2 :][:3]] == [
        f"error file={folder}/test_suite.py,line=9",
        f"error file={folder}/test_suite.py,line=16",
        f"warning file={folder}/test_suite.py,line=12",
    ]
    assert lines[place + 2].endswith(
        "::peak 101 B exceeds budget 100 B by 1 B on scripted"
        "%0A  budget    100 B   test_suite.py:9"
        "%0A    101 B  [101] uint8  take  model.py:7  in forward"
    )
    assert summary.read_bytes() == scripted.path.joinpath("markdown").read_bytes()


def test_without_the_flag_github_is_told_nothing(scripted, monkeypatch):
    summary = scripted.path / "summary"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    scripted.write(SUITE)
    assert "::error" not in scripted.run().text
    assert not summary.exists()


def test_a_summary_that_cannot_be_written_is_one_line_and_exit_code_1(scripted, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(scripted.path))
    scripted.write("def test_it(): pass")
    ran = scripted.run("--attnmem-github")
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert (
        f"attnmem: cannot add to $GITHUB_STEP_SUMMARY, {scripted.path}: Is a directory"
        in ran.result.outlines
    )


def test_a_file_that_cannot_be_written_is_one_line_and_keeps_no_other_back(scripted, everything):
    scripted.write(
        SUITE + "\ndef test_folder():\n    import os\n    os.mkdir('csv'); os.mkdir('html')\n"
    )
    ran = scripted.run(*everything, "-k", "within or folder")
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    for kind in ("csv", "html"):
        path = scripted.path / kind
        assert f"attnmem: cannot write {path}: Is a directory" in ran.result.outlines
    assert scripted.path.joinpath("markdown").is_file()
    assert "INTERNALERROR" not in ran.text


@pytest.mark.parametrize(
    "workers", [(), pytest.param(("-n1",), marks=pytest.mark.thorough)], ids=["alone", "xdist"]
)
def test_hostile_ids_break_no_format(scripted, everything, workers):
    scripted.write(HOSTILE)
    ran = scripted.run(*everything, *workers, "--attnmem-github", "--junit-xml=junit.xml")
    assert "INTERNALERROR" not in ran.text
    assert ran.summary["over"] == 7
    cases = [*ElementTree.parse(scripted.path / "junit.xml").iter("testcase")]
    told = [json.loads(case.find("properties/property").get("value")) for case in cases]
    assert sorted(row["nodeid"] for row in told) == sorted(row["nodeid"] for row in ran.rows)
    errors = [line for line in ran.result.outlines if line.startswith("::error ")]
    assert len(errors) == 7
    text = scripted.path.joinpath("markdown").read_text("utf-8")
    inert = "`test_suite.py::test_over[<script>alert(1)</script>]`"
    assert inert in text
    assert "<script>" not in text.replace(inert, "")


def test_a_suite_below_the_root_of_the_repository(scripted, monkeypatch):
    monkeypatch.setenv("GITHUB_WORKSPACE", str(scripted.path))
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    scripted.write(SUITE, "sub/test_sub.py")
    for name in ("conftest.py", "scripted.py"):
        shutil.move(scripted.path / name, scripted.path / "sub" / name)
    monkeypatch.chdir(scripted.path / "sub")
    ran = scripted.run("--rootdir=.", "--attnmem-github", "-k", "over", json_file=None)
    (error,) = (line for line in ran.result.outlines if line.startswith("::"))
    assert error.startswith("::error file=sub/test_sub.py,line=9,")
