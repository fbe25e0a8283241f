"""``--attnmem-default``: a limit for tests without a marker."""

import pytest


def test_it_holds_unmarked_tests(scripted):
    scripted.write("""
import unittest
from scripted import memory

def test_within(): memory.use(100)
def test_over(): memory.use(101)

class TestIt(unittest.TestCase):
    def test_over(self): memory.use(101)
""")
    ran = scripted.run("--attnmem-default=100 B")
    assert ran.outcomes == {"passed": 1, "failed": 2}
    assert ran.outcome("test_within") == "within"
    assert ran.report("test_over")[:2] == [
        "peak 101 B exceeds budget 100 B by 1 B on scripted",
        "  budget    100 B   --attnmem-default",
    ]
    assert ran.line == (
        "attnmem: 3 budgets, 1 within, 2 over, 0 not enforced (--attnmem-report for the table)"
    )


def test_a_marker_wins_whatever_its_metric(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget(200)
def test_larger(): memory.use(200)

@pytest.mark.memory_budget(5, metric="retained")
def test_other_metric(): memory.use(200)

@pytest.mark.memory_budget
def test_bare(): memory.use(200)
""")
    ran = scripted.run("--attnmem-default=100 B")
    assert ran.outcomes == {"passed": 3}


def test_a_test_that_allocates_nothing_has_a_row_unless_it_is_skipped(scripted):
    scripted.write("""
import pytest

def test_nothing(): pass
def test_failing(): raise ValueError
def test_skipped(): pytest.skip()
""")
    ran = scripted.run("--attnmem-default=100 B")
    assert ran.outcomes == {"passed": 1, "failed": 1, "skipped": 1}
    assert [(row["nodeid"].partition("::")[2], row["reason"]) for row in ran.rows] == [
        ("test_failing", "the test failed: ValueError"),
        ("test_nothing", "nothing was allocated"),
    ]
    strict = scripted.run("--attnmem-default=100 B", "--attnmem-strict=all")
    assert strict.outcomes == {"failed": 2, "skipped": 1}
    assert strict.short("test_nothing").startswith("FAILED: Failed: not enforced: nothing was")


def test_a_formula_holds_the_tests_that_it_can_be_evaluated_for(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.parametrize("N", [8])
def test_within(N): memory.use(2 * N)

@pytest.mark.parametrize("N", [8])
def test_over(N): memory.use(2 * N + 1)

def test_without_n(): memory.use(1)

def test_nothing(): pass
""")
    ran = scripted.run("--attnmem-default=2*N")
    assert ran.outcomes == {"passed": 3, "failed": 1}
    assert {row["nodeid"].partition("::")[2]: row["outcome"] for row in ran.rows} == {
        "test_within[8]": "within",
        "test_over[8]": "over",
        "test_without_n": "not enforced",
        "test_nothing": "not enforced",
    }
    assert ran.outcome("test_without_n").startswith("not enforced: symbol 'N' has no value (")


def test_strict_fails_what_the_formula_cannot_be_evaluated_for(scripted):
    scripted.write("""
from scripted import memory

def test_without_n(): memory.use(1)
""")
    ran = scripted.run("--attnmem-default=2*N", "--attnmem-strict=all")
    assert ran.outcomes == {"failed": 1}
    assert ran.short("test_without_n").startswith(
        "FAILED: Failed: not enforced: symbol 'N' has no value ("
    )


@pytest.mark.parametrize("place", ["ini", "command line"])
def test_what_no_backend_here_can_measure_says_so(scripted, place):
    scripted.ini["attnmem_backend"] = "absent"
    scripted.write("def test_it(): pass")
    arguments = []
    if place == "ini":
        scripted.ini["attnmem_default"] = "100 B"
    else:
        arguments = ["--attnmem-default=100 B"]
    ran = scripted.run(*arguments)
    assert ran.outcomes == {"errors": 1}
    assert ran.report("ERROR at setup of test_it") == [
        "backend 'absent' cannot measure here: nobody built one"
    ]
