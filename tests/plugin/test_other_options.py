"""pytest's own options, with budgets: ``-x``, ``--pdb``, ``-p no:terminal``, ``--junit-xml``."""

import json
import sys
from xml.etree import ElementTree

import pytest

SUITE = """
import pytest
from scripted import memory

@pytest.mark.memory_budget(100)
def test_over(): memory.use(101)

@pytest.mark.memory_budget(100)
def test_within(): memory.use(100)
"""

#: A debugger that needs no input.
DEBUGGER = """
import pdb

class Quiet(pdb.Pdb):
    def interaction(self, *args):
        print("the debugger is on")
        self.set_continue()
"""


@pytest.fixture(autouse=True)
def _traced():
    """Restores the trace function, which a debugger takes away: coverage would see no more."""
    tracer = sys.gettrace()
    yield
    sys.settrace(tracer)


def test_stopping_at_the_first_failure(scripted):
    scripted.write(SUITE)
    ran = scripted.run("-x", "--attnmem-strict=all")
    assert ran.outcomes == {"failed": 1}
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert [row["outcome"] for row in ran.rows] == ["over"]
    assert ran.line == (
        "attnmem: 1 budget, 0 within, 1 over, 0 not enforced (--attnmem-report for the table)"
    )


def test_a_broken_budget_is_a_failure_to_the_cache(scripted):
    scripted.write(SUITE)
    scripted.run("-pcacheprovider")
    ran = scripted.run("-pcacheprovider", "--lf")
    assert [row["nodeid"] for row in ran.rows] == ["test_suite.py::test_over"]


def test_the_debugger_opens_on_a_broken_budget_and_at_a_breakpoint(scripted):
    scripted.write(DEBUGGER, "quiet.py")
    scripted.write(f"""{SUITE}
@pytest.mark.memory_budget(100)
def test_stops():
    breakpoint()
    memory.use(100)
""")
    ran = scripted.run("--pdb", "--pdbcls=quiet:Quiet")
    assert ran.outcomes == {"failed": 1, "passed": 2}
    assert ran.text.count("the debugger is on") == 2
    assert ran.outcome("test_stops") == "within"
    assert "peak 101 B exceeds budget 100 B by 1 B on scripted" in ran.result.outlines
    assert ran.row("test_over")["held"] != []


@pytest.mark.parametrize("warmup", [0, 1])
def test_under_the_debugger_a_unittest_is_torn_down_as_often_as_it_is_set_up(scripted, warmup):
    scripted.write(DEBUGGER, "quiet.py")
    ran = scripted.tests(f"""
import unittest

def log(step):
    with open("steps.txt", "a") as file:  # no run takes it back
        print(step, file=file)

class TestIt(unittest.TestCase):
    def setUp(self): log("set up")
    def tearDown(self): log("tear down")

    @pytest.mark.memory_budget(100, warmup={warmup})
    def test_over(self): memory.use(101)
""").run("--pdb", "--pdbcls=quiet:Quiet")
    assert ran.outcomes == {"failed": 1}
    steps = (scripted.path / "steps.txt").read_text().splitlines()
    assert steps == ["set up", "tear down"] * (2 + warmup)
    assert ran.text.count("the debugger is on") == 1


def test_without_a_terminal_the_file_is_written_and_the_exit_code_is_the_same(scripted):
    scripted.write(SUITE)
    ran = scripted.run("-pno:terminal", "--attnmem-report", shown=())
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert ran.text == ""
    assert [row["outcome"] for row in ran.rows] == ["over", "within"]


@pytest.mark.parametrize("family", ["xunit1", "xunit2"])
def test_junit_has_the_failure_and_the_row(scripted, family):
    scripted.ini["junit_family"] = family
    scripted.write(SUITE)
    ran = scripted.run("--junit-xml=junit.xml")
    cases = {
        case.get("name"): case
        for case in ElementTree.parse(scripted.path / "junit.xml").iter("testcase")
    }
    failure = cases["test_over"].find("failure")
    assert failure.get("message").splitlines()[:2] == [
        "BudgetExceeded: peak 101 B exceeds budget 100 B by 1 B on scripted",
        "  budget    100 B   test_suite.py:5",
    ]
    for test, case in cases.items():
        (shown,) = case.findall("properties/property")
        assert shown.get("name") == "attnmem"
        assert json.loads(shown.get("value")) == {**ran.row(test), "growth": []}


def test_tests_can_be_selected_by_the_marker(scripted):
    scripted.write(SUITE + "\ndef test_unmarked(): pass\n")
    assert scripted.run("-m", "not memory_budget").outcomes == {"passed": 1, "deselected": 2}


@pytest.mark.parametrize("option", ["--collect-only", "--setup-only", "--setup-plan"])
def test_plans_and_setups_run_no_body(scripted, option):
    scripted.write(SUITE)
    ran = scripted.run(option, "--attnmem-report")
    assert ran.result.ret == pytest.ExitCode.OK
    assert "INTERNALERROR" not in ran.text
    assert option != "--collect-only" or ran.rows == []


def test_warnings_as_errors_find_nothing_to_complain_of(suite):
    ran = suite.tests("""
@pytest.mark.memory_budget("1 KiB")
def test_over(qkv):
    q, k, v = qkv(1, 2, 32, 8, requires_grad=True)
    (q @ k.mT).softmax(-1).sum().backward()
""").run("-Werror")
    assert ran.outcomes == {"failed": 1}
    assert ran.short("test_over").startswith("FAILED: BudgetExceeded: peak ")


def test_the_thread_of_a_timeout_is_not_the_tests(suite):
    pytest.importorskip("pytest_timeout")
    suite.tests("""
@pytest.mark.timeout(60, method="thread", func_only=True)
@pytest.mark.memory_budget("1 KiB", exact=True)
def test_it(): torch.ones(256)
""")
    assert suite.run().outcome("test_it") == "within"
