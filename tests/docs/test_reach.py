"""The page of other projects' tests, and the numbers that it is made of."""

import json
import sys
from pathlib import Path

import pytest

SUITES = Path(__file__).parent.parent / "suites"
pytestmark = pytest.mark.skipif(sys.version_info < (3, 11), reason="tomllib is of Python 3.11")


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(SUITES)
    import page
    import run

    yield run, page
    for name in ("run", "page"):
        sys.modules.pop(name)


def test_the_page_shows_the_recorded_results(scripts):
    _, page = scripts
    assert page.PAGE.read_text("utf-8") == page.page(page.results())


def test_each_project_names_what_is_run(scripts):
    run, _ = scripts
    found = run.projects()
    assert len(found) >= 8
    for project in found.values():
        assert project["repository"].count("/") == 1
        assert {"requirements", "commit", "files", "tests"} <= set(project)
        assert set(project.get("backends", ())) <= set(run.WAYS)


def test_a_summary_names_the_tests_that_turned_red(scripts):
    run, page = scripts
    bare = {"seconds": 9, "tests": {"a": "passed", "b": "passed", "c": "failed", "d": "skipped"}}
    null = {
        "seconds": 5,
        "tests": {"a": "passed", "b": "failed", "c": "failed", "d": "passed"},
        "rows": {"measured": 1, "nothing was allocated": 4, "a Triton kernel wrote it": 2},
    }
    found = run.summary({"bare": bare, "null": null})
    assert found["bare"] == {"seconds": 9, "passed": 2, "failed": 1, "skipped": 1, "red": []}
    assert (found["null"]["passed"], found["null"]["red"]) == (2, ["b"])
    text = page.page({"p": {"torch": "2.13.0", "ways": found}})
    assert "| p | null | 2 | 1 (33 %) | 2 | 1 | 5 (9) |" in text
    assert "| p | null | 2 | a Triton kernel wrote it |" in text
    assert "| p | null | red | b |" in text


REPORT = """
<testsuites><testsuite>
 <testcase classname="m" name="a"/>
 <testcase classname="m" name="b"><failure/></testcase>
 <testcase classname="m" name="b"/>
 <testcase classname="m" name="c"><skipped/></testcase>
 <testcase classname="m" name="d"><error/></testcase>
</testsuite></testsuites>
"""


def test_reports_are_read(scripts, tmp_path):
    run, _ = scripts
    (tmp_path / "junit.xml").write_text(REPORT)
    assert run.outcomes(tmp_path / "junit.xml") == {
        "m::a": "passed", "m::b": "failed", "m::c": "skipped", "m::d": "failed",
    }  # fmt: skip
    rows = [("within", ""), ("over", ""), ("not enforced", "why"), ("not enforced", "why")]
    results = [{"outcome": outcome, "reason": reason} for outcome, reason in rows]
    (tmp_path / "rows.json").write_text(json.dumps({"results": results}))
    assert run.measured(tmp_path / "rows.json") == {"measured": 2, "why": 2}
