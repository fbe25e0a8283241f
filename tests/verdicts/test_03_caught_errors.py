"""A budget that was exceeded fails its test, whoever catches the error."""

import pytest

OVER = "r: peak 101 B exceeds budget 100 B by 1 B on scripted"

#: Bodies that handle the error of a region with 101 B of 100 B.
BODIES = {
    "try": """
    try: over(attnmem)
    except Exception: pass""",
    "pytest.raises": """
    with pytest.raises(pytest_attnmem.BudgetExceeded): over(attnmem)""",
    "suppress": """
    with contextlib.suppress(AssertionError): over(attnmem)""",
    "return in finally": """
    def quiet():
        try: over(attnmem)
        finally: return
    quiet()""",
    "retry": """
    for used in (101, 100):
        try:
            over(attnmem, used)
            break
        except AssertionError: continue""",
    "generator": """
    def parts():
        try: over(attnmem)
        except AssertionError: pass
        yield 1
    assert [*parts()] == [1]""",
    "then a skip": """
    try: over(attnmem)
    except AssertionError: pytest.skip("not today")""",
}

HEAD = """
import asyncio
import contextlib
import unittest
import pytest
import pytest_attnmem
from scripted import memory

def over(attnmem, used=101):
    with attnmem.region("r", 100):
        memory.use(used)
"""


@pytest.mark.parametrize(
    "options",
    [(), ("--attnmem-strict=all",), pytest.param(("-n1",), marks=pytest.mark.thorough)],
    ids=" ".join,
)
def test_a_region_over_its_budget_fails_the_test_that_catches_the_error(scripted, options):
    names = {name: f"test_{place}" for place, name in enumerate(BODIES)}
    bodies = (f"\ndef {names[name]}(attnmem):{body}\n" for name, body in BODIES.items())
    ran = scripted.tests("".join(bodies)).run(*options)
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert ran.outcomes == {"failed": len(BODIES)}
    assert ran.summary["over"] == len(BODIES)
    for test in names.values():
        assert ran.short(test) == f"FAILED: BudgetExceeded: {OVER}"


CHECKS = """
def test_check(attnmem):
    seen = attnmem.measure(memory.use, 101)
    with contextlib.suppress(AssertionError): attnmem.check(seen, 100)

def test_compare(attnmem):
    with contextlib.suppress(AssertionError):
        attnmem.compare(lambda: memory.use(101), lambda: memory.use(100))

@pytest.mark.asyncio
async def test_task(attnmem):
    async def part(): over(attnmem)
    task = asyncio.create_task(part())
    await asyncio.wait([task])
    assert task.exception() is not None

class TestIt(unittest.TestCase):
    @pytest.fixture(autouse=True)
    def _attnmem(self, attnmem): self.attnmem = attnmem

    def test_method(self):
        with self.assertRaises(AssertionError): over(self.attnmem)

    def test_skip(self):
        try: over(self.attnmem)
        except AssertionError: self.skipTest("no")

def test_by_name(request):
    with contextlib.suppress(AssertionError): over(request.getfixturevalue("attnmem"))

@pytest.fixture
def early(attnmem):
    with contextlib.suppress(AssertionError): over(attnmem)

def test_fixture(early): pass

@pytest.mark.memory_budget(1000)
def test_marked(attnmem):
    with contextlib.suppress(AssertionError): over(attnmem)
"""


def test_checks_compares_and_other_kinds_of_tests_fail_too(scripted):
    ran = scripted.tests(CHECKS).run(has_async=True)
    assert ran.outcomes == {"failed": 8}
    assert ran.summary["over"] == 8
    assert ran.short("test_check").endswith("check: " + OVER.removeprefix("r: "))
    assert ran.short("test_marked") == f"FAILED: BudgetExceeded: {OVER}"


def test_the_text_is_a_section_where_the_test_fails_for_another_reason(scripted):
    ran = scripted.tests("""
def test_it(attnmem):
    with contextlib.suppress(AssertionError): over(attnmem)
    raise ValueError("wrong")

def test_raised_from(attnmem):
    try: over(attnmem)
    except AssertionError: raise ValueError("wrong")
""").run()
    assert ran.outcomes == {"failed": 2}
    assert ran.short("test_it") == "FAILED: ValueError: wrong"
    for name in ("test_it", "test_raised_from"):
        lines = ran.report(name)
        start = next(i for i, line in enumerate(lines) if "Captured memory budget call" in line)
        assert lines[start + 1] == OVER


def test_a_region_that_an_error_leaves_may_be_over_and_is_never_within(scripted):
    ran = scripted.tests("""
def leave(attnmem, used, metric="peak"):
    with contextlib.suppress(ValueError), attnmem.region("r", 100, metric=metric):
        memory.use(used)
        raise ValueError

def test_over(attnmem): leave(attnmem, 101)
def test_within(attnmem): leave(attnmem, 100)
def test_retained(attnmem): leave(attnmem, 101, "retained")
""").run()
    assert ran.outcomes == {"failed": 3}
    assert ran.short("test_over") == f"FAILED: BudgetExceeded: {OVER}"
    left = "not enforced: the region was left by ValueError"
    assert ran.outcome("test_within", "r") == left
    assert ran.outcome("test_retained", "r", "retained") == left


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest 9 has subtests")
def test_a_subtest_tells_of_its_own(scripted):
    ran = scripted.tests("""
def test_it(attnmem, subtests):
    with subtests.test("part"): over(attnmem)
""").run()
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    first, section, *lines = ran.report("test_it")
    assert first == "contains 1 failed subtest"
    assert "Captured memory budget call" in section
    assert lines[0] == OVER


def test_a_row_that_is_over_after_the_test_fails_the_session(scripted):
    ran = scripted.tests("""
@pytest.fixture
def late(attnmem):
    yield
    with contextlib.suppress(AssertionError): over(attnmem)

@pytest.mark.parametrize("n", range(5))
def test_it(late, n): pass
""").run()
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert ran.outcomes == {"passed": 5}
    named = ", ".join(f"test_suite.py::test_it[{n}]" for n in range(3))
    assert (
        f"attnmem: 5 tests were over a budget and did not fail: {named} and 2 more"
        in ran.result.outlines
    )


def test_expected_failures_hear_of_what_was_caught(scripted):
    ran = scripted.tests("""
@pytest.mark.xfail(strict=True, raises=pytest_attnmem.BudgetExceeded)
def test_marker(attnmem):
    with contextlib.suppress(AssertionError): over(attnmem)

def test_call(attnmem):
    with contextlib.suppress(AssertionError): over(attnmem)
    pytest.xfail("known")
""").run()
    assert ran.result.ret == pytest.ExitCode.OK
    assert ran.outcomes == {"xfailed": 2}
    assert [row["expected"] for row in ran.rows] == [True, True]
