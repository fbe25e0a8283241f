"""The page of PyTorch's own tests, and the classes of their failures."""

import pytest
import suites

pytest.importorskip("tomllib", reason="tomllib is of Python 3.11")
with suites.scripts("suites", "run", "pytorch", "pytorch_page") as (_, pytorch, page):
    pass


def test_the_page_shows_the_recorded_results():
    assert page.PAGE.read_text("utf-8") == page.page(*page.recorded())


def test_each_failure_has_a_class_and_none_is_a_defect():
    results, failures = page.recorded()
    for file, found in results["files"].items():
        assert set(found["failed"]) == set(failures.get(file, {})), file
    kinds = {kind for tests in failures.values() for kind, _ in tests.values()}
    assert kinds <= {*page.CLASSES} - {"defect"}


def test_each_file_was_run():
    results, _ = page.recorded()
    runs = {one["file"]: one["device"] for one in pytorch.settings()["run"]}
    assert {file: found["device"] for file, found in results["files"].items()} == runs
    assert all(found["passed"] or found["failed"] for found in results["files"].values())


def test_the_memory_of_fsdp_is_what_was_read_from_a_gpu():
    files = page.recorded()[0]["files"]
    for name in ("fsdp/test_fsdp_memory.py", "_composable/fsdp/test_fully_shard_memory.py"):
        found = files[f"distributed/{name}"]
        assert (found["passed"], found["failed"], found["skipped"]) == (2, [], {})


def test_a_page_counts_failures_by_class():
    found = {"device": "H100", "passed": 3, "skipped": {"no": 4}, "failed": ["a", "b"]}
    failures = {"f.py": {"a": ["drift", "x"], "b": ["limit", "y"]}}
    assert page.table({"f.py": found}, failures).splitlines() == [
        "| file | device | passed | defect | limit | value | drift | environment | skipped |",
        "|---|---|---|---|---|---|---|---|---|",
        "| `f.py` | null:H100 | 3 | 0 | 1 | 0 | 1 | 0 | 4 |",
        "| **all** |  | **3** | **0** | **1** | **0** | **1** | **0** | **4** |",
    ]


REPORT = """
<testsuites><testsuite>
 <testcase classname="m" name="a"/>
 <testcase classname="m" name="b"><skipped message="a value was read at a.py:3"/></testcase>
 <testcase classname="m" name="c"><skipped message="NotKnown: on null:H100 no graphs"/></testcase>
 <testcase classname="m" name="d"><skipped type="pytest.xfail" message=""/></testcase>
</testsuite></testsuites>
"""


def test_reasons_of_skips_are_read(tmp_path):
    (tmp_path / "junit.xml").write_text(REPORT)
    assert pytorch.reasons(tmp_path / "junit.xml") == [
        "a value that nobody knows",
        "on null:H100 no graphs",
        "it is expected to fail",
    ]
