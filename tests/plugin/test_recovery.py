"""A body that runs out of memory, catches the error and goes on."""

import pytest

HEAD = """
import unittest
from contextlib import suppress
import pytest
from scripted import OutOfMemory, memory

def search(used):
    with suppress(OutOfMemory): memory.refuse()
    memory.use(used)
"""
OVER = (
    "out of memory on scripted: an allocation was refused, and the error caught with 100 B held;"
    " budget 100 B"
)


def test_what_was_held_is_judged(scripted):
    scripted.write(
        HEAD
        + """
@pytest.mark.memory_budget(100, oom="expected")
class TestIt(unittest.TestCase):
    def test_within(self): search(100)
    def test_over(self): search(101)
    def test_escaped(self): memory.refuse()

@pytest.mark.memory_budget(100, oom="expected")
def test_raised():
    with pytest.raises(OutOfMemory): memory.refuse()
    memory.use(100)

@pytest.mark.memory_budget(100, oom="expected")
def test_another_error():
    search(100)
    raise ValueError

@pytest.mark.memory_budget(100, oom="expected")
def test_caused():
    try: memory.refuse()
    except OutOfMemory as error: raise ValueError from error
"""
    )
    ran = scripted.run()
    assert ran.outcomes == {"passed": 2, "failed": 4}
    assert ran.outcome("TestIt::test_within") == ran.outcome("test_raised") == "within"
    assert ran.row("test_raised")["out_of_memory"] == ""
    peak = "over: peak 101 B exceeds budget 100 B by 1 B on scripted"
    assert ran.outcome("TestIt::test_over") == peak
    assert ran.outcome("test_another_error") == "not enforced: the test failed: ValueError"
    for name in ("TestIt::test_escaped", "test_caused"):
        escaped = "over: out of memory on scripted: tried to allocate 1.0 TiB; budget 100 B"
        assert ran.outcome(name) == escaped


def test_without_the_word_it_is_over_and_the_failure_names_the_word(scripted):
    scripted.write(HEAD + "@pytest.mark.memory_budget(100)\ndef test_it(): search(100)")
    ran = scripted.run()
    assert ran.report("test_it") == [
        OVER,
        "  budget    100 B   test_suite.py:10",
        "  the program caught the error: oom='expected' judges what it held, if it is meant to"
        " recover",
        "  attnmem explain out-of-memory",
    ]


@pytest.mark.parametrize("option", ["--attnmem-default=100 B", "--attnmem-update=all"])
def test_a_test_without_a_marker_is_judged_by_what_it_held(scripted, option):
    scripted.write(HEAD + "def test_it(): search(100)")
    ran = scripted.run(option)
    assert ran.outcomes == {"passed": 1}
    assert ran.row("test_it")["peak_bytes"] == 100
    assert ran.row("test_it")["out_of_memory"] == ""


def test_regions_and_checks_take_the_word(scripted):
    scripted.write(
        HEAD
        + """
def test_within(attnmem):
    with attnmem.region("search", 100, oom="expected"): search(100)
    attnmem.check(attnmem.measure(search, 100), 100, oom="expected")

def test_over(attnmem):
    with attnmem.region("search", 100): search(100)

def test_escaped(attnmem):
    with attnmem.region("search", 100, oom="expected"): memory.refuse()
"""
    )
    ran = scripted.run()
    assert ran.outcomes == {"passed": 1, "failed": 2}
    assert ran.short("test_over") == f"FAILED: pytest_attnmem.BudgetExceeded: search: {OVER}"
    assert "tried to allocate 1.0 TiB" in ran.short("test_escaped")
