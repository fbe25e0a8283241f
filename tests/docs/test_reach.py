"""The page of other projects' tests, and the numbers that it is made of."""

import json

import pytest
import suites

pytest.importorskip("tomllib", reason="tomllib is of Python 3.11")
with suites.scripts("suites", "run", "page", "order") as (run, page, order):
    pass


def test_the_pages_show_the_recorded_results():
    assert page.PAGE.read_text("utf-8") == page.written()
    assert order.PAGE.read_text("utf-8") == order.page()


def test_each_project_names_what_is_run():
    found = run.projects()
    assert len(found) >= 8
    for project in found.values():
        assert project["repository"].count("/") == 1
        assert {"requirements", "commit", "files", "tests"} <= set(project)
        assert set(project.get("backends", ())) <= set(run.WAYS)


def test_no_recorded_test_is_red():
    found = page.results()
    assert {*found} == {*page.projects()}
    ways = [(name, way, one) for name in found for way, one in found[name]["ways"].items()]
    assert [(name, way, one["red"]) for name, way, one in ways if one["red"]] == []
    assert all(one["passed"] for _, _, one in ways if "rows" in one)


@pytest.mark.parametrize("way", ["simulated", "null"])
def test_nine_of_ten_are_measured(way):
    measured, allocating = page.in_all(page.results(), way)
    assert 10 * measured >= 9 * allocating > 0


def test_a_summary_names_the_tests_that_turned_red():
    bare = {"seconds": 9, "tests": {"a": "passed", "b": "passed", "c": "failed", "d": "skipped"}}
    triton = "a Triton kernel wrote it"
    null = {
        "seconds": 5,
        "tests": {"a": "passed", "b": "failed", "c": "failed", "d": "passed"},
        "rows": [("a", "measured"), ("b", triton), ("c", "the test failed"), ("d", triton)],
    }
    found = run.summary({}, {"bare": bare, "null": null})
    assert found["bare"] == {"seconds": 9, "passed": 2, "failed": 1, "skipped": 1, "red": []}
    assert (found["null"]["passed"], found["null"]["red"]) == (2, ["b"])
    text = page.page({"p": {"torch": "2.13.0", "ways": found}})
    assert "| p | null | 2 | 1 (33 %) | 2 | 1 | 5 (9) |" in text
    assert "| p | null | 2 | a Triton kernel wrote it |" in text
    assert "| p | null | red | b |" in text


def test_each_failure_of_a_project_that_needs_a_gpu_is_red():
    bare = {"seconds": 1, "tests": {"a": "skipped", "b": "failed"}}
    null = {"seconds": 1, "tests": {"a": "passed", "b": "failed"}, "rows": [("b", "it failed")]}
    found = run.summary({"backends": ["null"]}, {"bare": bare, "null": null})
    assert (found["null"]["red"], found["null"]["rows"]) == (["b"], {"it failed": 1})


def test_a_project_of_another_one_has_its_files():
    found = run.projects()
    assert found["transformers-models"]["of"] == found["transformers"]["of"] == "transformers"
    assert found["transformers-models"]["commit"] == found["transformers"]["commit"]
    assert found["transformers-models"]["tests"] != found["transformers"]["tests"]


REPORT = """
<testsuites><testsuite>
 <testcase classname="m" name="a"/>
 <testcase classname="m" name="b"><failure/></testcase>
 <testcase classname="m" name="b"/>
 <testcase classname="m" name="c"><skipped/></testcase>
 <testcase classname="m" name="d"><error/></testcase>
</testsuite></testsuites>
"""


def test_reports_are_read(tmp_path):
    (tmp_path / "junit.xml").write_text(REPORT)
    assert run.outcomes(tmp_path / "junit.xml") == {
        "m::a": "passed", "m::b": "failed", "m::c": "skipped", "m::d": "failed",
    }  # fmt: skip
    rows = [
        ("m/n.py::C::f[a]", "within", ""),
        ("n.py::f", "over", ""),
        ("m.py::g", "not enforced", "a value was read at m.py:12 that is not known"),
        ("m.py::h", "not enforced", "3 threads were started"),
        ("m.py::h", "not enforced", "a thread was started"),
        ("m.py::i", "not enforced", "it takes 4.3e+12 floating-point operations, and"),
        ("m.py::i", "not enforced", "it takes more floating-point operations than it"),
    ]
    results = [dict(zip(("nodeid", "outcome", "reason"), row, strict=True)) for row in rows]
    (tmp_path / "rows.json").write_text(json.dumps({"results": results}))
    assert run.measured(tmp_path / "rows.json") == [
        ("m.n.C::f[a]", "measured"),
        ("n::f", "measured"),
        ("m::g", "a value was read that is not known"),
        *[("m::h", "threads were started")] * 2,
        *[("m::i", "it takes more floating-point operations than --attnmem-values-limit allows")]
        * 2,
    ]
