"""A row that is over in an expected failure is told apart from a real one, wherever it is told."""

import json
from pathlib import Path

import pytest

from pytest_attnmem.cli import main

SUITE = """
@pytest.mark.memory_budget(100)
def test_within(): memory.use(100)

@pytest.mark.memory_budget(100)
@pytest.mark.xfail(strict=True, reason="known")
def test_expected(): memory.use(101)

@pytest.mark.memory_budget(100)
@pytest.mark.xfail
def test_unexpectedly_fine(): memory.use(100)
"""
LINE = "attnmem: 3 budgets, 2 within, 0 over, 0 not enforced, 1 expected failure"


@pytest.fixture
def ran(scripted, monkeypatch):
    scripted.tests(SUITE)
    monkeypatch.chdir(scripted.path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    files = [f"--attnmem-{kind}=rows.{kind}" for kind in ("markdown", "csv", "html")]
    return scripted.run("--attnmem-report", "--attnmem-github", "--junitxml=junit.xml", *files)


def test_it_is_told_everywhere(scripted, ran):
    assert ran.result.ret == pytest.ExitCode.OK
    assert ran.outcomes == {"passed": 1, "xfailed": 1, "xpassed": 1}
    assert ran.line == LINE
    assert {row["nodeid"].partition("::")[2]: row["expected"] for row in ran.rows} == {
        "test_within": False,
        "test_expected": True,
        "test_unexpectedly_fine": False,
    }
    assert (ran.summary["over"], ran.summary["expected_failures"]) == (0, 1)
    (line,) = (line for line in ran.result.outlines if "::test_expected  " in line)
    assert line.endswith("  expected failure")
    assert (
        "::notice file=test_suite.py,line=8,title=test_suite.py%3A%3Atest_expected::expected"
        " failure of a memory budget: peak 101 B exceeds budget 100 B by 1 B on scripted"
        in ran.result.outlines
    )
    markdown = (scripted.path / "rows.markdown").read_text("utf-8")
    assert markdown.startswith("**2 of 3 memory budgets kept**, 1 expected failure.\n")
    assert "| expected failure: `peak 101 B exceeds" in markdown
    page = (scripted.path / "rows.html").read_text("utf-8")
    assert '"verdict":"2 of 3 budgets kept, 1 expected failure"' in page
    assert '"outcome":"expected failure"' in page
    lines = (scripted.path / "rows.csv").read_text("utf-8").splitlines()
    assert [line.rpartition(",")[2] for line in lines] == ["expected", "true", "", ""]
    junit = (scripted.path / "junit.xml").read_text("utf-8")
    assert junit.count("&quot;expected&quot;: true") == 1


def test_it_is_told_of_a_worker_too(scripted):
    pytest.importorskip("xdist")
    ran = scripted.tests(SUITE).run("-n1")
    assert ran.result.ret == pytest.ExitCode.OK
    assert ran.line == f"{LINE} (--attnmem-report for the table)"


def test_the_commands_tell_it(ran, capsys):
    assert main(["report", "rows.json"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == LINE
    assert main(["merge", "rows.json", "-o", "merged.json"]) == 0
    assert capsys.readouterr().out.splitlines() == [LINE]
    base = json.loads(Path("rows.json").read_text("utf-8"))
    for row in base["results"]:
        row.update(outcome="within", expected=False)
    Path("base.json").write_text(json.dumps(base), "utf-8")
    assert main(["compare", "base.json", "rows.json"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == (
        "none of 3 tests failed the comparison: 3 unchanged."
    )


def test_a_regression_that_is_expected_is_no_regression_of_the_baseline(scripted):
    scripted.tests(SUITE.replace("memory_budget(100)", "memory_budget"))
    entries = [
        {"test": f"test_suite.py::{test}", "metric": "peak", "on": "scripted", "bytes": 100}
        for test in ("test_expected", "test_unexpectedly_fine", "test_within")
    ]
    text = json.dumps({"schema": 1, "entries": entries})
    scripted.write(text, "attnmem-baseline.json")
    assert scripted.run("--attnmem-report").line == f"{LINE}; baseline: 2 same"


def test_a_test_that_fails_in_another_way_than_expected_is_over(scripted):
    ran = scripted.tests("""
@pytest.mark.memory_budget(100)
@pytest.mark.xfail(raises=ValueError)
def test_it(): memory.use(101)

@pytest.fixture
def late(attnmem):
    yield
    with attnmem.region("late", 100): memory.use(101)

@pytest.mark.xfail
def test_teardown(late): assert False
""").run()
    assert ran.outcomes == {"failed": 1, "xfailed": 2}
    assert [(row["region"], row["expected"]) for row in ran.rows] == [("", False), ("late", True)]
