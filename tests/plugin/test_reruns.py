"""With pytest-rerunfailures, the worst attempt at a budget counts."""

import pytest

from .baselines import entry, write_baseline

pytest.importorskip("pytest_rerunfailures")

#: The body of the n-th attempt.
ATTEMPTS = """
import pytest
from scripted import memory

attempts = []

@pytest.fixture
def careless():
    yield
    assert len(attempts) > 1, "not torn down"

@pytest.mark.memory_budget(100)
def test_it({fixture}):
    attempts.append(1)
    if len(attempts) == 1:
        {first}
    else:
        {then}
"""

OVER = "over: peak 101 B exceeds budget 100 B by 1 B on scripted"

FAILED = {"rerun": 2, "failed": 1}
WITHIN, TOO_MUCH, ERROR = "memory.use(1)", "memory.use(101)", "raise ValueError"
CASES = {
    "over, then within": (TOO_MUCH, WITHIN, FAILED, OVER),
    "over, then failing": (TOO_MUCH, ERROR, FAILED, OVER),
    "failing, then within": (ERROR, WITHIN, {"rerun": 1, "passed": 1}, "within"),
    "failing, then over": (ERROR, TOO_MUCH, FAILED, OVER),
    "over, then skipped": (TOO_MUCH, "pytest.skip('later')", {"rerun": 1, "skipped": 1}, OVER),
}


@pytest.mark.parametrize(("first", "then", "outcomes", "outcome"), CASES.values(), ids=CASES)
def test_the_worst_attempt_counts(scripted, first, then, outcomes, outcome):
    scripted.write(ATTEMPTS.format(fixture="", first=first, then=then))
    ran = scripted.run("--reruns=2", "--attnmem-strict=all", has_reruns=True)
    assert ran.outcomes == outcomes
    assert (ran.result.ret == pytest.ExitCode.OK) is (outcome == "within")
    assert len(ran.rows) == 1
    assert ran.outcome("test_it").removesuffix(" (in an earlier attempt)") == outcome
    if (first, then) == (TOO_MUCH, WITHIN):
        assert ran.report("test_it")[:2] == [
            "peak 101 B exceeds budget 100 B by 1 B on scripted (in an earlier attempt)",
            "  budget    100 B   test_suite.py:12",
        ]
        assert ran.row("test_it")["peak_bytes"] == 101
        assert ran.line == (
            "attnmem: 1 budget, 0 within, 1 over, 0 not enforced (--attnmem-report for the table)"
        )


def test_a_teardown_that_fails_once_leaves_one_row(scripted):
    scripted.write(ATTEMPTS.format(fixture="careless", first=WITHIN, then=WITHIN))
    ran = scripted.run("--reruns=1", has_reruns=True)
    assert ran.outcomes == {"passed": 2, "rerun": 1}
    assert ran.outcome("test_it") == "within"


def test_regions_of_each_attempt_have_the_same_names(scripted):
    ran = scripted.tests("""
attempts = []

def test_it(attnmem):
    attempts.append(1)
    with attnmem.region("part", 10):
        memory.use(len(attempts))
    assert len(attempts) == 2
""").run("--reruns=1", has_reruns=True)
    assert ran.row("test_it", "part")["peak_bytes"] == 2
    assert len(ran.rows) == 1


@pytest.mark.parametrize("cause", ["raise ValueError", "pytest.skip('later')"])
def test_an_attempt_over_its_baseline_counts_even_if_it_failed(scripted, cause):
    first = f"memory.use(80); {cause}"
    scripted.write(ATTEMPTS.format(fixture="", first=first, then="memory.use(70)"))
    write_baseline(scripted, entry("test_it", 70))
    ran = scripted.run("--reruns=2", has_reruns=True)
    if "skip" in cause:  # a skip says nothing about memory
        assert ran.outcomes == {"skipped": 1}
    else:
        assert ran.outcomes == FAILED
        assert ran.outcome("test_it").startswith("over: peak 80 B is 10 B over its baseline 70 B")
