"""The outcome of a budget if the test fails, is skipped, or is expected to fail."""

import pytest


def test_an_expected_failure_may_be_a_broken_budget(scripted):
    ran = scripted.tests("""
import unittest
import pytest_attnmem
xfail = pytest.mark.xfail

@pytest.mark.memory_budget(100)
class TestIt(unittest.TestCase):
    @xfail(strict=True, reason="regression")
    def test_over(self): memory.use(101)

    @xfail(strict=True)
    def test_within(self): memory.use(100)

    @unittest.expectedFailure
    def test_unexpected_success(self): memory.use(101)

@xfail(strict=True, reason="regression")
@pytest.mark.memory_budget(100)
def test_over(): memory.use(101)

@xfail(strict=True)
@pytest.mark.memory_budget(100)
def test_within(): memory.use(100)

@pytest.mark.parametrize("raised", [
    pytest.param(0, marks=xfail(raises=pytest_attnmem.BudgetExceeded, strict=True)),
    pytest.param(1, marks=xfail(raises=ValueError, strict=True)),
])
@pytest.mark.memory_budget(100)
def test_of_a_kind(raised): memory.use(101)

@xfail(raises=pytest_attnmem.BudgetExceeded, strict=True)
@pytest.mark.memory_budget("64 MB")
def test_unreadable(): pass

@xfail(raises=pytest_attnmem.BudgetExceeded, strict=True)
@pytest.mark.memory_budget("N")
def test_unknown(qkv): pass
""").run()
    assert ran.outcomes == {"xfailed": 3, "failed": 5, "errors": 1}
    for test in ("test_over", "TestIt::test_over"):
        assert ran.short(test) == "XFAIL: regression"
    for test in ("test_within", "TestIt.test_within"):
        assert ran.report(test) == ["[XPASS(strict)] "]
    over = "peak 101 B exceeds budget 100 B by 1 B on scripted"
    assert ran.outcome("test_over") == f"over: {over}"
    assert ran.outcome("test_within") == "within"
    assert ran.short("TestIt::test_unexpected_success") == "FAILED: Failed: Unexpected success"
    assert over in ran.report("TestIt.test_unexpected_success")
    assert ran.short("test_of_a_kind[1]").startswith("FAILED: ")


SKIPPED = """
import unittest

@pytest.fixture
def unavailable(): pytest.skip("not here")

budget = pytest.mark.memory_budget(100)

@pytest.mark.skip(reason="no")
@budget
def test_marker(): pass

@pytest.mark.skipif(True, reason="no")
@budget
def test_condition(): pass

@budget
def test_fixture(unavailable): pass

@budget
def test_body(): pytest.skip("no")

@budget
def test_over(): memory.use(101); pytest.skip("no")

@budget
def test_import(): pytest.importorskip("attnmem_nowhere")

@pytest.mark.xfail(run=False)
@budget
def test_not_run(): memory.use(101)

@budget
def test_gives_up():
    memory.use(1)
    pytest.xfail("one day")

@budget
class TestIt(unittest.TestCase):
    @unittest.skip("no")
    def test_decorator(self): pass
    def test_body(self): self.skipTest("no")
"""
REASONS = {
    **dict.fromkeys(("marker", "condition", "body", "over"), "skipped: no"),
    "fixture": "skipped: not here",
    "import": "skipped: could not import 'attnmem_nowhere': No module named 'attnmem_nowhere'",
    "not_run": "skipped: [NOTRUN]",
    "gives_up": "xfailed: one day",
}


def test_a_skipped_test_is_not_enforced_and_says_why(scripted):
    ran = scripted.tests(SKIPPED).run()
    assert ran.outcomes == {"skipped": 8, "xfailed": 2}
    for test, reason in REASONS.items():
        assert ran.outcome(f"test_{test}") == f"not enforced: {reason}"
    for test in ("decorator", "body"):
        assert ran.outcome(f"TestIt::test_{test}") == "not enforced: skipped: no"
    assert ran.line == (
        "attnmem: 10 budgets, 0 within, 0 over, 10 not enforced (--attnmem-report for the table)"
    )


def test_a_body_that_fails_was_not_measured_to_its_end(scripted):
    ran = scripted.tests("""
budget = pytest.mark.memory_budget

def wrong(nbytes):
    memory.take(nbytes)
    raise ValueError("wrong weights")

@budget(100)
def test_peak(): wrong(1)

@budget(100, exact=True)
def test_exact(): wrong(1)

@budget(100, metric="retained")
def test_retained(): wrong(101)

@budget(100)
def test_positive(): pass

@budget(0)
def test_zero(): pass
""").run()
    assert ran.outcomes == {"failed": 4, "passed": 1}
    for test in ("test_peak", "test_exact", "test_retained"):
        metric = "retained" if test == "test_retained" else "peak"
        assert ran.outcome(test, metric=metric) == "not enforced: the test failed: ValueError"
        assert ran.short(test) == "FAILED: ValueError: wrong weights"
    assert "Captured memory budget" not in ran.text
    assert ran.outcome("test_positive") == "not enforced: nothing was allocated"
    assert ran.outcome("test_zero") == "within"


BODIES = {
    "functions": "def test_it():",
    "unittest": "import unittest\n\nclass TestIt(unittest.TestCase):\n  def test_it(self):",
    "asyncio": "@pytest.mark.asyncio\nasync def test_it():",
}


@pytest.mark.parametrize("head", BODIES.values(), ids=BODIES)
def test_a_body_that_fails_while_over_keeps_its_traceback_and_says_so(scripted, head):
    ran = scripted.tests(f"""
pytestmark = pytest.mark.memory_budget(100)

{head}
    memory.use(101)
    raise ValueError("wrong weights")
""").run(has_async=True)
    assert ran.outcomes == {"failed": 1}
    (row,) = ran.rows
    assert row["outcome"] == "over"
    test = row["nodeid"].partition("::")[2]
    assert ran.short(test) == "FAILED: ValueError: wrong weights"
    lines = ran.report(test.replace("::", "."))
    assert any(line.startswith(">") and "raise ValueError" in line for line in lines)
    start = next(i for i, line in enumerate(lines) if "Captured memory budget call" in line)
    assert lines[start + 1 : start + 3] == [
        "peak 101 B exceeds budget 100 B by 1 B on scripted",
        "  budget    100 B   test_suite.py:5",
    ]


def test_running_out_of_memory_is_over_with_what_was_asked_for(scripted):
    ran = scripted.tests("""
from scripted import OutOfMemory, memory

@pytest.mark.memory_budget(100)
def test_it():
    memory.take(60)
    raise OutOfMemory("tried to allocate 1 EiB")
""").run()
    assert ran.outcomes == {"failed": 1}
    assert ran.report("test_it") == [
        "out of memory on scripted: tried to allocate 1 EiB with 60 B held; budget 100 B",
        "  budget    100 B   test_suite.py:7",
        "  attnmem explain out-of-memory",
    ]
    assert ran.outcome("test_it") == (
        "over: out of memory on scripted: tried to allocate 1 EiB with 60 B held; budget 100 B"
    )


OUT_OF_MEMORY = """
import weakref
import pytest
import torch
import unittest

class Cell: pass

refs = []

def forward():
    weights = torch.ones(256)
    refs.append(weakref.ref(weights))
    return torch.empty(2**60, dtype=torch.uint8)

class TestIt(unittest.TestCase):
    @pytest.mark.memory_budget("64 KiB")
    def test_unittest(self): forward()

@pytest.mark.memory_budget("64 KiB")
def test_function(): forward()

@pytest.mark.asyncio
@pytest.mark.memory_budget("64 KiB")
async def test_async(): forward()

def test_region(attnmem):
    with attnmem.region("forward", "64 KiB"):
        forward()

def test_what_the_frames_held_is_gone():
    assert [ref() for ref in refs] == [None] * 4
"""


def test_running_out_of_memory_lets_go_of_what_the_frames_held(suite):
    suite.write(OUT_OF_MEMORY)
    ran = suite.run(has_async=True)
    assert ran.outcomes == {"failed": 4, "passed": 1}
    ran_out = (
        "out of memory on cpu: tried to allocate 1048576.0 TiB at test_suite.py:14 with 1.0 KiB"
        " held; budget 64.0 KiB"
    )
    for test in ("test_function", "test_async", "TestIt::test_unittest"):
        assert ran.short(test) == f"FAILED: BudgetExceeded: {ran_out}"
        assert ran.outcome(test) == f"over: {ran_out}"
    assert ran.short("test_region") == f"FAILED: pytest_attnmem.BudgetExceeded: forward: {ran_out}"
    assert ran.outcome("test_region", "forward") == f"over: {ran_out}"


def test_a_thread_of_the_body_is_counted_and_an_error_that_it_expects_is_its_own_business(suite):
    ran = suite.tests("""
import threading

def work(): torch.ones(4096)

@pytest.mark.memory_budget("1 KiB")
def test_one():
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

@pytest.mark.memory_budget("64 KiB")
def test_out_of_memory():
    with pytest.raises(RuntimeError, match="can't allocate memory"):
        torch.empty(2**60, dtype=torch.uint8)
""").run("--attnmem-strict=off")
    assert ran.outcomes == {"failed": 1, "passed": 1}
    assert "    16.0 KiB  [4096] float32  ones  test_suite.py:6  in work" in ran.text
    assert ran.outcome("test_out_of_memory") == "not enforced: nothing was allocated"


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest 9 has subtests")
def test_subtests_are_reported_and_the_test_is_measured_as_one(scripted):
    ran = scripted.tests("""
@pytest.mark.memory_budget(100)
def test_it(subtests):
    for used in (10, 20):
        with subtests.test(used=used):
            memory.use(used)
""").run()
    assert ran.outcome("test_it") == "within"
    assert ran.row("test_it")["peak_bytes"] == 20
