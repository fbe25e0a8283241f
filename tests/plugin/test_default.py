"""``--attnmem-default``: a limit for tests without a marker."""

import pytest


def test_it_holds_unmarked_tests_and_a_marker_wins_whatever_its_metric(scripted):
    ran = scripted.tests("""
import unittest

def test_within(): memory.use(100)
def test_over(): memory.use(101)

class TestIt(unittest.TestCase):
    def test_over(self): memory.use(101)

@pytest.mark.memory_budget(200)
def test_larger(): memory.use(200)

@pytest.mark.memory_budget(5, metric="retained")
def test_other_metric(): memory.use(200)

@pytest.mark.memory_budget
def test_bare(): memory.use(200)
""").run("--attnmem-default=100 B")
    assert ran.outcomes == {"passed": 4, "failed": 2}
    assert ran.outcome("test_within") == "within"
    assert ran.report("test_over")[:2] == [
        "peak 101 B exceeds budget 100 B by 1 B on scripted",
        "  budget    100 B   --attnmem-default",
    ]
    assert ran.line == (
        "attnmem: 6 budgets, 3 within, 2 over, 1 not enforced (--attnmem-report for the table)"
    )


def test_a_test_that_allocates_nothing_has_a_row_unless_it_is_skipped(scripted):
    ran = scripted.tests("""
def test_nothing(): pass
def test_failing(): raise ValueError
def test_skipped(): pytest.skip()
""").run("--attnmem-default=100 B")
    assert ran.outcomes == {"passed": 1, "failed": 1, "skipped": 1}
    assert [(row["nodeid"].partition("::")[2], row["reason"]) for row in ran.rows] == [
        ("test_failing", "the test failed: ValueError"),
        ("test_nothing", "nothing was allocated"),
    ]
    strict = scripted.run("--attnmem-default=100 B", "--attnmem-strict=all")
    assert strict.outcomes == {"failed": 2, "skipped": 1}
    assert strict.short("test_nothing").startswith("FAILED: Failed: not enforced: nothing was")


def test_a_formula_holds_the_tests_that_it_can_be_evaluated_for(scripted):
    ran = scripted.tests("""
@pytest.mark.parametrize("N", [8])
def test_within(N): memory.use(2 * N)

@pytest.mark.parametrize("N", [8])
def test_over(N): memory.use(2 * N + 1)

def test_without_n(): memory.use(1)

def test_nothing(): pass
""").run("--attnmem-default=2*N")
    assert ran.outcomes == {"passed": 3, "failed": 1}
    assert {row["nodeid"].partition("::")[2]: row["outcome"] for row in ran.rows} == {
        "test_within[8]": "within",
        "test_over[8]": "over",
        "test_without_n": "not enforced",
        "test_nothing": "not enforced",
    }
    lacks = "not enforced: the test gives 'N' of --attnmem-default no value"
    assert ran.outcome("test_without_n") == lacks
    ran = scripted.run("--attnmem-default=2*N", "--attnmem-strict=all")
    assert ran.outcomes == {"passed": 1, "failed": 3}
    assert ran.short("test_without_n") == f"FAILED: Failed: {lacks}"


#: Tests that give one symbol, and none.
GIVING = """
@pytest.mark.parametrize("size", [8])
def test_with_a_size(size): memory.use(size)

def test_without(): memory.use(1)
"""


@pytest.mark.parametrize(
    ("limit", "symbol", "hint"), [("sise", "sise", "; did you mean 'size'?"), ("2*N", "N", "")]
)
def test_a_symbol_that_no_test_gives_fails_the_session_in_one_line(scripted, limit, symbol, hint):
    scripted.tests(GIVING)
    line = (
        f"attnmem: --attnmem-default {limit!r}: no test gives {symbol!r} a value; name an argument"
        f" or a fixture of a test so, or write a size such as '2 GiB'{hint}"
    )
    ran = scripted.run(f"--attnmem-default={limit}")
    assert (ran.outcomes, ran.result.ret) == ({"passed": 2}, pytest.ExitCode.TESTS_FAILED)
    assert line in ran.result.outlines
    reason = f"  2 not enforced: the test gives {symbol!r} of --attnmem-default no value"
    assert reason in ran.result.outlines
    scripted.ini["attnmem_default"] = limit
    assert scripted.run("-k", "size").result.ret == pytest.ExitCode.OK  # others may give it
    assert line in scripted.run().result.outlines


def test_a_symbol_that_one_test_gives_fails_no_session(scripted):
    ran = scripted.tests(GIVING).run("--attnmem-default=2*size")
    assert (ran.outcomes, ran.result.ret) == ({"passed": 2}, pytest.ExitCode.OK)


def test_what_no_backend_here_can_measure_says_so(scripted):
    scripted.ini |= {"attnmem_backend": "absent", "attnmem_default": "100 B"}
    scripted.write("def test_it(): pass")
    ran = scripted.run()
    assert ran.outcomes == {"errors": 1}
    assert ran.report("ERROR at setup of test_it") == [
        "backend 'absent' cannot measure here: nobody built one"
    ]


SUITE = """
import gc
import pytest
from scripted import memory

@pytest.mark.memory_budget(10)
def test_over():
    assert gc.isenabled()
    memory.use(11)

@pytest.mark.memory_budget("64 MB", backend="absent")
def test_bad(): pass

@pytest.mark.skip
@pytest.mark.memory_budget(10)
def test_skipped(): pass

def test_over_the_default(): memory.use(11)

def test_fixtures(attnmem):
    with attnmem.region("limited", 10) as region:
        memory.use(11)
    assert region.measurement.peak_bytes == 11
    with attnmem.region("measured"):
        memory.use(11)
    attnmem.check(attnmem.measure(memory.use, 11), 10)
    attnmem.compare(lambda: memory.use(11), lambda: memory.use(10))
"""


def test_nothing_is_enforced_or_reported(scripted):
    scripted.write(SUITE)
    options = ("--attnmem-disable", "--attnmem-default=10 B", "--attnmem-report")
    ran = scripted.run(*options, "--strict-markers")
    assert ran.outcomes == {"passed": 4, "skipped": 1}
    assert ran.rows == []
    assert [line for line in ran.result.outlines if "attnmem: " in line] == [
        "attnmem: disabled, budgets are not enforced"
    ]
    assert "memory budgets" not in ran.text
