"""``--attnmem-strict``: a test that is not enforced fails."""

import pytest


def test_tests_that_are_not_enforced_fail_and_say_why(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.mark.memory_budget(10)
def test_nothing(): pass

@pytest.mark.memory_budget
def test_bare(): memory.use(1)

@pytest.mark.memory_budget(10, metric="reserved")
def test_unmeasured(): memory.use(1)

@pytest.mark.memory_budget({"cuda": 1})
def test_elsewhere(): memory.use(1)

def test_region(attnmem):
    with attnmem.region("part", 10):
        pass

@pytest.mark.memory_budget(10)
def test_within(): memory.use(10)

def test_unmarked(): pass
""")
    lenient = scripted.run()
    assert lenient.outcomes == {"passed": 7}
    assert lenient.result.ret == pytest.ExitCode.OK
    ran = scripted.run("--attnmem-strict")
    assert ran.outcomes == {"passed": 2, "failed": 5}
    reasons = {
        "test_nothing": "Failed: not enforced: nothing was allocated",
        "test_bare": "Failed: not enforced: no baseline entry; --attnmem-update new writes one",
        "test_unmeasured": "Failed: not enforced: reserved is not measured on scripted",
        "test_elsewhere": "Failed: not enforced: no limit for scripted, only for cuda",
        "test_region": "pytest_attnmem.BudgetExceeded: part: not enforced: nothing was allocated",
    }
    for test, reason in reasons.items():
        assert ran.short(test) == f"FAILED: {reason}"
    assert ran.rows[0].keys() == lenient.rows[0].keys()
    assert [row["outcome"] for row in ran.rows] == [row["outcome"] for row in lenient.rows]
    assert "(--attnmem-strict)" not in ran.text


@pytest.mark.parametrize(
    ("skips", "line"),
    [
        (1, "attnmem: 1 test was not enforced (--attnmem-strict)"),
        (2, "attnmem: 2 tests were not enforced (--attnmem-strict)"),
    ],
)
def test_skipped_tests_fail_the_session_which_says_so(scripted, skips, line):
    scripted.write(f"""
import pytest
from scripted import memory

@pytest.mark.parametrize("n", range({skips}))
@pytest.mark.skip(reason="no driver")
@pytest.mark.memory_budget(10)
def test_skipped(n): pass

@pytest.mark.skip
def test_unmarked(): pass

@pytest.mark.memory_budget(10)
def test_within(): memory.use(10)
""")
    assert scripted.run().result.ret == pytest.ExitCode.OK
    ran = scripted.run("--attnmem-strict")
    assert ran.outcomes == {"passed": 1, "skipped": skips + 1}
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert line in ran.result.outlines


def test_tests_that_failed_anyway_are_not_counted_twice(scripted):
    scripted.write("""
import pytest
from scripted import memory

@pytest.fixture
def broken(): raise ValueError

@pytest.mark.memory_budget(10)
def test_setup(broken): pass

@pytest.mark.memory_budget(10)
def test_call(): raise ValueError

@pytest.mark.memory_budget("64 MB")
def test_bad(): pass

@pytest.mark.memory_budget(10, backend="absent")
def test_elsewhere(): pass

@pytest.mark.memory_budget(10)
def test_nothing(): pass
""")
    ran = scripted.run("--attnmem-strict")
    assert ran.outcomes == {"failed": 2, "errors": 3}
    assert len(ran.rows) == 5
    assert {row["outcome"] for row in ran.rows} == {"not enforced"}
    assert "(--attnmem-strict)" not in ran.text


def test_a_body_that_fails_is_not_failed_for_strictness_too(scripted):
    scripted.write("""
import pytest

@pytest.mark.memory_budget(10)
def test_it(): raise ValueError("wrong")
""")
    ran = scripted.run("--attnmem-strict")
    assert ran.short("test_it") == "FAILED: ValueError: wrong"
    assert "not enforced: " not in "\n".join(ran.report("test_it"))


def test_a_test_that_is_expected_to_fail_and_does_otherwise_fails_the_session(scripted):
    scripted.write("""
import pytest

@pytest.mark.xfail(strict=True)
@pytest.mark.memory_budget(10)
def test_it(): raise ValueError("wrong")
""")
    ran = scripted.run("--attnmem-strict")
    assert ran.outcomes == {"xfailed": 1}
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
    assert "attnmem: 1 test was not enforced (--attnmem-strict)" in ran.result.outlines


def test_without_a_terminal_the_session_fails_all_the_same(scripted):
    scripted.write("""
import pytest

@pytest.mark.skip
@pytest.mark.memory_budget(10)
def test_it(): pass
""")
    ran = scripted.run("--attnmem-strict", "-pno:terminal", shown=())
    assert ran.result.ret == pytest.ExitCode.TESTS_FAILED
