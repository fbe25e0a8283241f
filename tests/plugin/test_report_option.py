"""The output of a session: the totals, ``--attnmem-report`` and ``--attnmem-json``."""

import json
import re

import pytest

SUITE = """
import pytest
from scripted import memory

@pytest.mark.memory_budget("2*B*N", B=2)
@pytest.mark.parametrize("N", [1024])
def test_within(N): memory.use(3 * N)

@pytest.mark.memory_budget(2048)
def test_over(): memory.use(3072)

@pytest.mark.memory_budget(2048)
def test_nothing(): pass

@pytest.mark.memory_budget(4096, metric="retained")
def test_retained(): memory.take(1024)

def test_region(attnmem):
    with attnmem.region("part"):
        memory.use(512)
"""


def test_the_table_is_sorted_by_share_of_budget(scripted):
    scripted.write(SUITE)
    ran = scripted.run("--attnmem-report")
    lines = ran.result.outlines
    start = next(i for i, line in enumerate(lines) if line.strip("= ") == "memory budgets")
    end = lines.index(ran.line)
    table = [re.split(r" {2,}", line.strip()) for line in lines[start + 1 : end]]
    assert table[0] == [
        "test", "shape", "backend", "budget", "peak", "used %", "outcome",
    ]  # fmt: skip
    assert table[2:7] == [
        ["test_suite.py::test_over", "scripted", "2.0 KiB", "3.0 KiB", "150.0", "over"],
        [
            "test_suite.py::test_within[1024]",
            "B=2 N=1024",
            "scripted",
            "4.0 KiB",
            "3.0 KiB",
            "75.0",
            "within",
        ],
        [
            "test_suite.py::test_retained",
            "scripted",
            "4.0 KiB",
            "1.0 KiB (retained)",
            "25.0",
            "within",
        ],
        ["test_suite.py::test_nothing", "scripted", "2.0 KiB", "0 B", "0.0", "not enforced"],
        ["test_suite.py::test_region [part]", "scripted", "-", "512 B", "measured"],
    ]
    assert lines[start + 8 : end] == [
        "",
        "session peak  3.0 KiB in test_suite.py::test_over",
        "workspace     96 B on scripted, from library warm-up, not counted in any test",
        "not enforced  test_suite.py::test_nothing: nothing was allocated",
    ]
    assert ran.line == "attnmem: 4 budgets, 2 within, 1 over, 1 not enforced"


def test_the_file_has_a_row_for_each_budget_and_region(scripted):
    scripted.write(SUITE)
    scripted.run(json_file="out.json")
    data = json.loads((scripted.path / "out.json").read_text("utf-8"))
    assert list(data) == ["schema", "environment", "results", "growth", "summary"]
    assert data["schema"] == 1
    assert data["growth"] == []
    assert data["summary"] == {
        "budgets": 4,
        "within": 2,
        "over": 1,
        "not_enforced": 1,
        "expected_failures": 0,
        "measured": 1,
        "session_peak_bytes": 3072,
    }
    assert {"python", "torch", "cuda", "device", "compute_capability", "allocator"} <= set(
        data["environment"]
    )
    row = next(row for row in data["results"] if "within" in row["nodeid"])
    assert row.pop("duration_s") >= 0
    assert row == {
        "nodeid": "test_suite.py::test_within[1024]",
        "region": "",
        "outcome": "within",
        "reason": "",
        "metric": "peak",
        "backend": "scripted",
        "device": "scripted",
        "shape": {"B": 2, "N": 1024, "M": 1024},
        "budget": "2*B*N",
        "limit_bytes": 4096,
        "peak_bytes": 3072,
        "allocated_bytes": 3072,
        "reserved_bytes": None,
        "retained_bytes": 0,
        "baseline_bytes": None,
        "baseline_state": "",
        "baseline_torch": "",
        "workspace_bytes": 96,
        "allocations": 1,
        "held": [],
        "explanation": [],
        "where": "test_suite.py:5",
        "timeline": None,
        "out_of_memory": "",
        "expected": False,
    }


def test_the_file_is_written_when_there_is_nothing_to_tell_and_the_table_is_not(suite):
    suite.write("def test_it(): pass")
    ran = suite.run("--attnmem-report")
    assert ran.rows == []
    counts = ("budgets", "within", "over", "not_enforced", "expected_failures", "measured")
    assert ran.summary == {**dict.fromkeys(counts, 0), "session_peak_bytes": None}
    assert "memory budgets" not in ran.text
    assert "attnmem:" not in ran.text


def test_a_file_that_cannot_be_written_is_told_when_the_session_is_interrupted_too(suite):
    suite.write("""
from pathlib import Path

def test_it():
    Path("out.json").mkdir()
    raise KeyboardInterrupt
""")
    ran = suite.run("--attnmem-json=out.json", json_file=None)
    assert ran.result.ret == pytest.ExitCode.INTERRUPTED
    assert f"attnmem: cannot write {suite.path}/out.json: Is a directory" in ran.result.outlines
    assert "INTERNALERROR" not in ran.text


def test_a_property_of_the_same_name_is_somebody_elses(scripted):
    ran = scripted.tests("""
@pytest.mark.memory_budget(10)
def test_marked(record_property):
    for value in ("hello", 3, "[1, 2]", '{"timeline": 3}'): record_property("attnmem", value)
    memory.use(10)

def test_unmarked(record_property): record_property("attnmem", {"nodeid": 1})
""").run("--junitxml=junit.xml", "-ojunit_family=xunit1")
    assert ran.outcomes == {"passed": 2}
    assert [row["outcome"] for row in ran.rows] == ["within"]
    text = scripted.path.joinpath("junit.xml").read_text("utf-8")
    assert 'value="[1, 2]"' in text
    assert 'value="{&quot;timeline&quot;: 3}"' in text


def test_reasons_are_one_line_and_any_text(scripted):
    ran = scripted.tests("""
@pytest.fixture
def broken(): pytest.fail("no\\n  driver")

@pytest.mark.memory_budget(10)
def test_setup(broken): pass

@pytest.mark.memory_budget(10)
def test_body(): pytest.skip("no\\n  driver")

@pytest.mark.skip(reason="no\\udcff driver")
@pytest.mark.memory_budget(10)
def test_marked(): pass
""").run("--attnmem-report", shown=())
    assert ran.outcome("test_setup") == "not enforced: setup failed: no driver"
    assert ran.outcome("test_body") == "not enforced: skipped: no driver"
    assert ran.outcome("test_marked") == "not enforced: skipped: no\udcff driver"
    assert "INTERNALERROR" not in ran.text


def test_a_terminal_has_colours(scripted):
    scripted.write(SUITE)
    lines = scripted.run("--attnmem-report", "--color=yes").result.outlines
    start = next(i for i, line in enumerate(lines) if "memory budgets" in line)
    assert lines[start + 3].endswith("  \x1b[31mover\x1b[0m")
    assert lines[start + 7].endswith("  measured")
    assert any(line.startswith("\x1b[31mattnmem: 4 budgets, ") for line in lines)


def test_a_node_id_can_be_pasted_in_the_folder_of_the_session(suite, monkeypatch):
    budget = "@pytest.mark.memory_budget('1 KiB')\n"
    text = f"import pytest, torch\n{budget}def test_it(): torch.empty(4)\n"
    suite.write(text, "inner/test_inner.py")
    monkeypatch.chdir(suite.path / "inner")
    inside = suite.run("--attnmem-report", json_file="").text
    assert "\ntest_inner.py::test_it " in inside
    monkeypatch.chdir(suite.path)
    assert "\ninner/test_inner.py::test_it " in suite.run("--attnmem-report", json_file="").text
