"""Tests whose process crashes, and sessions that stop before their end, under pytest-xdist."""

import pytest

pytest.importorskip("xdist")

SUITE = """
import os
import pytest
from scripted import memory

pytestmark = pytest.mark.memory_budget("2*lanes")

@pytest.mark.parametrize("N", [1, 2, 3])
def test_within(N): memory.use(N)

@pytest.mark.memory_budget(1, metric="retained")
def test_dies(): os._exit(3)

def test_over(): memory.use(17)

@pytest.mark.memory_budget(100)
def test_also_within(): memory.use(9)
"""
DIED = "not enforced: the process died in the test"


def test_what_the_dead_process_ran_is_not_enforced_and_the_rest_stands(scripted):
    scripted.write(SUITE)
    ran = scripted.run("-n4", "--attnmem-strict")
    assert ran.outcomes == {"passed": 4, "failed": 2}
    assert ran.outcome("test_dies") == ran.outcome("test_dies", metric="retained") == DIED
    assert ran.row("test_dies")["budget"] == "2*lanes"
    assert ran.row("test_dies")["where"] == "test_suite.py:11"
    assert ran.outcome("test_over").startswith("over: ")
    for test in ("test_within[1]", "test_within[2]", "test_within[3]", "test_also_within"):
        assert ran.outcome(test) == "within"
    assert ran.summary["budgets"] == 7
    assert "not enforced (--attnmem-strict)" not in ran.text  # it has failed already


def test_a_process_that_dies_in_a_fixture(scripted):
    scripted.write("""
import os
import pytest

@pytest.fixture
def deadly(): os._exit(3)

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
def test_dies(N, deadly): pass

def test_it(): pass
""")
    ran = scripted.run("-n2")
    assert ran.outcomes == {"passed": 1, "failed": 1}
    assert ran.outcome("test_dies[64]") == DIED
    assert ran.row("test_dies[64]")["budget"] == "O(N)"


def test_a_test_without_a_budget_that_dies_has_no_row(scripted):
    scripted.write("import os\ndef test_dies(): os._exit(3)\ndef test_it(): pass")
    ran = scripted.run("-n2")
    assert ran.outcomes == {"passed": 1, "failed": 1}
    assert ran.rows == []


#: Counts attempts in a file: no process sees all of them.
RERUN = """
import os
import pathlib
import pytest
from scripted import memory

pytestmark = pytest.mark.memory_budget(100)

@pytest.mark.flaky(reruns={reruns})
def test_it():
    file = pathlib.Path(__file__).with_name("attempts")
    attempt = len(file.read_text()) if file.exists() else 0
    file.write_text("x" * (attempt + 1))
    ({attempts})[attempt]()

def test_other(): memory.use(1)
"""


@pytest.mark.parametrize(
    ("attempts", "outcome"),
    [
        (("os._exit(3)", "memory.use(7)"), "within"),
        (("os._exit(3)", "memory.use(101)"), "over"),
        (("memory.use(101)", "os._exit(3)", "memory.use(7)"), "over"),
        (("os._exit(3)", "os._exit(3)"), "not enforced"),
    ],
    ids=["then within", "then over", "over before", "again"],
)
def test_a_death_counts_unless_there_is_another_attempt(scripted, attempts, outcome):
    pytest.importorskip("pytest_rerunfailures")
    text = ", ".join(f"lambda: {attempt}" for attempt in attempts)
    scripted.write(RERUN.format(reruns=len(attempts) - 1, attempts=f"{text},"))
    ran = scripted.run("-n1", "--attnmem-explain=off")  # a second run would be an attempt
    (row,) = (row for row in ran.rows if row["nodeid"].endswith("test_it"))
    assert row["outcome"] == outcome
    assert ran.outcome("test_other") == "within"


def test_what_was_running_when_the_session_was_stopped_has_no_row(scripted):
    scripted.write("""
import time
import pytest
from scripted import memory

@pytest.mark.memory_budget(100)
@pytest.mark.parametrize("N", range(8))
def test_it(N):
    memory.use(101)
    time.sleep(N % 2 * 0.2)
""")
    ran = scripted.run("-n2", "--maxfail=1")
    assert "INTERNALERROR" not in ran.text
    assert 1 <= len(ran.rows) < 8
    assert {row["outcome"] for row in ran.rows} == {"over"}
    assert ran.summary["over"] == len(ran.rows)
