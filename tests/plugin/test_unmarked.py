"""Tests without a marker, in a suite that is held to a baseline."""

import json

import pytest

SUITE = """
import unittest
from scripted import memory

def test_function(): memory.use(NBYTES)

class TestIt(unittest.TestCase):
    def test_method(self): memory.use(NBYTES)

def test_nothing(): pass

def test_regions(attnmem):
    memory.use(NBYTES)
    with attnmem.region("part"): memory.use(3)
"""


def written(suite):
    entries = json.loads((suite.path / "attnmem-baseline.json").read_text("utf-8"))["entries"]
    return [(one["test"].partition("::")[2], one.get("region"), one["bytes"]) for one in entries]


@pytest.mark.parametrize("mode", ["all", "new"])
def test_an_update_measures_every_test_and_later_sessions_hold_it(scripted, mode):
    scripted.write(SUITE.replace("NBYTES", "100"))
    ran = scripted.run(f"--attnmem-update={mode}")
    assert ran.outcomes == {"passed": 4}
    assert "attnmem-baseline.json (--attnmem-update " + mode + "): 3 added" in ran.text
    assert written(scripted) == [
        ("TestIt::test_method", None, 100),
        ("test_function", None, 100),
        ("test_regions", "part", 3),
    ]
    assert ran.outcome("test_nothing") == "not enforced: nothing was allocated"
    scripted.write(SUITE.replace("NBYTES", "101"))
    ran = scripted.run()
    assert ran.outcomes == {"passed": 2, "failed": 2}
    assert ran.short("test_function").startswith(
        "FAILED: BudgetExceeded: peak 101 B is 1 B over its baseline 100 B (+1.0%) on scripted"
    )
    assert [row["nodeid"].partition("::")[2] for row in ran.rows] == [
        "TestIt::test_method",
        "test_function",
        "test_regions",
    ]


def test_an_update_of_a_suite_that_allocates_nothing_says_so(scripted):
    scripted.write("def test_nothing(): pass")
    ran = scripted.run("--attnmem-update=all")
    assert ran.outcomes == {"passed": 1}
    nothing = (
        "attnmem-baseline.json (--attnmem-update all): no entries, because nothing was measured"
    )
    assert nothing in ran.text
    assert not (scripted.path / "attnmem-baseline.json").exists()
    scripted.run("--attnmem-baseline=b.json", "--attnmem-update=all")  # which the next one reads
    assert scripted.run("--attnmem-baseline=b.json").outcomes == {"passed": 1}
    assert (scripted.path / "b.json").read_text() == '{"schema": 1.1, "entries": []}\n'


def test_without_an_update_only_tests_with_an_entry_are_measured(scripted):
    scripted.write(SUITE.replace("NBYTES", "100"))
    scripted.run("--attnmem-update=all", "-k", "function")
    ran = scripted.run("-m", "attnmem")
    assert ran.outcomes == {"passed": 2, "deselected": 2}
    assert [row["nodeid"].partition("::")[2] for row in ran.rows] == [
        "test_function",
        "test_regions",
    ]
    assert scripted.run("--attnmem-disable").rows == []
