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


#: A test whose fixture ends the process, and a test without any limit.
OTHERS = """
import os
import pytest

@pytest.fixture
def deadly(): os._exit(3)

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
def test_dies_in_a_fixture(N, deadly): pass

def test_dies_without_a_budget(): os._exit(3)
"""


def test_what_the_dead_process_ran_is_not_enforced_and_the_rest_stands(scripted):
    scripted.write(SUITE)
    scripted.write(OTHERS, "test_others.py")
    ran = scripted.run("-n2", "--attnmem-strict=all")
    assert ran.outcomes == {"passed": 4, "failed": 4}
    assert ran.outcome("test_dies") == ran.outcome("test_dies", metric="retained") == DIED
    assert ran.row("test_dies")["budget"] == "2*lanes"
    assert ran.row("test_dies")["where"] == "test_suite.py:11"
    assert ran.outcome("test_over").startswith("over: ")
    for test in ("test_within[1]", "test_within[2]", "test_within[3]", "test_also_within"):
        assert ran.outcome(test) == "within"
    assert ran.outcome("test_dies_in_a_fixture[64]") == DIED
    assert ran.row("test_dies_in_a_fixture[64]")["budget"] == "O(N)"
    assert len(ran.rows) == ran.summary["budgets"] == 8  # none of the test without a budget
    assert "not enforced (--attnmem-strict all)" not in ran.text  # it has failed already


#: Counts the attempts of each test in a file: no process sees all of them.
RERUN = """
import os
import pathlib
import pytest
from scripted import memory

@pytest.fixture
def attempt(request):
    file = pathlib.Path(__file__).with_name(request.node.name)
    attempt = len(file.read_text()) if file.exists() else 0
    file.write_text("x" * (attempt + 1))
    # An answer: the number of reruns, which was sent before, has arrived.
    request.config.failures_db.get_test_reruns(request.node.nodeid)
    return attempt

@pytest.mark.memory_budget(100)
def test_other(): memory.use(1)
"""
ATTEMPTS = {
    "test_then_within": (("os._exit(3)", "memory.use(7)"), "within"),
    "test_then_over": (("os._exit(3)", "memory.use(101)"), "over"),
    "test_over_before": (("memory.use(101)", "os._exit(3)", "memory.use(7)"), "over"),
    "test_again": (("os._exit(3)", "os._exit(3)"), "not enforced"),
}


@pytest.mark.thorough
def test_a_death_counts_unless_there_is_another_attempt(scripted):
    pytest.importorskip("pytest_rerunfailures")
    tests = [
        f"""
@pytest.mark.memory_budget(100)
@pytest.mark.flaky(reruns={len(attempts) - 1})
def {name}(attempt):
    ({"".join(f"lambda: {body}, " for body in attempts)})[attempt]()
"""
        for name, (attempts, _) in ATTEMPTS.items()
    ]
    scripted.write(RERUN + "".join(tests))
    ran = scripted.run(
        "-n1", "--attnmem-explain=off", has_reruns=True
    )  # a second run would be an attempt
    outcomes = {row["nodeid"].partition("::")[2]: row["outcome"] for row in ran.rows}
    expected = {name: outcome for name, (_, outcome) in ATTEMPTS.items()}
    assert outcomes == {"test_other": "within", **expected}


@pytest.mark.thorough
def test_what_was_running_when_the_session_was_stopped_has_no_row(scripted):
    ran = scripted.tests("""
import time

@pytest.mark.memory_budget(100)
@pytest.mark.parametrize("N", range(8))
def test_it(N):
    memory.use(101)
    time.sleep(N % 2 * 0.2)
""").run("-n2", "--maxfail=1")
    assert "INTERNALERROR" not in ran.text
    assert 1 <= len(ran.rows) < 8
    assert {row["outcome"] for row in ran.rows} == {"over"}
    assert ran.summary["over"] == len(ran.rows)
