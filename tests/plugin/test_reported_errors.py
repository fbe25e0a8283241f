"""Tests that read values which nobody can know: skipped where they read them, and never red."""

import pytest

from pytest_attnmem.budgets.budget import Obstacle

SUITE = """
import unittest, pytest, torch
from pytest_attnmem.backends.simulated.session.process import process_device

def read():
    x = torch.ones(2, device="cuda")
    process_device().tape.lose(x, "a kernel wrote it")
    return x.sum().item()

@pytest.fixture
def value(): return read()

def test_fixture(value): pass

def test_body(): read()

def test_handled():
    with pytest.raises(ZeroDivisionError):
        read()

def test_subtest(subtests):
    with subtests.test("reads"):
        read()
    with subtests.test("does not"):
        pass

class Case(unittest.TestCase):
    def test_unittest(self): read()

    def test_its_subtests(self):
        for part in ("first", "second"):
            with self.subTest(part=part):
                read()
"""
RESTARTED = """
import unittest, torch

class Case(unittest.TestCase):
    def test_it(self):
        weight = torch.ones(3)
        with self.subTest(part="first"):
            assert (weight.cuda() + torch.ones(3, device="cuda")).sum() == 6
"""
REASON = (
    "the program needs the values of a tensor at test_suite.py:8, which are not known:"
    " a kernel wrote it; use backend='cpu' for this test"
)
#: The fixture ``subtests``, and the outcomes of subtests, are of pytest 9.
SINCE_9 = pytest.version_tuple >= (9, 0)


@pytest.fixture
def ran(suite):
    def ran(*options):
        text = SUITE if SINCE_9 else SUITE.replace("test_subtest(", "subtest(")
        suite.write(text)
        return suite.run("--attnmem-backend=simulated:A100-80GB", *options)

    return ran


def test_no_test_turns_red(ran):
    assert not {"failed", "errors"} & set(ran().outcomes)


def test_each_body_has_a_row_with_the_reason(ran):
    found = ran("--attnmem-default=1 GiB")
    assert not {"failed", "errors"} & set(found.outcomes)
    for test in ("test_body", "test_handled", "Case::test_unittest"):
        assert found.outcome(test) == f"not enforced: {REASON}"


def test_strict_fails_a_measured_test(ran):
    found = ran("--attnmem-default=1 GiB", "--attnmem-strict=all")
    assert found.outcomes["errors"] == 1
    assert "skipped" not in found.outcomes


def test_a_promise_fails_each_way_of_reading_with_its_remedy(ran, suite):
    marked = "\npytestmark = pytest.mark.memory_budget('1 GiB')\n"
    suite.write(SUITE + marked, "test_marked.py")
    found = ran("test_marked.py")
    assert "skipped" not in found.outcomes
    assert found.outcomes["errors"] == 1
    remedy = f"  {Obstacle.VALUE_NOT_KNOWN.remedy}"
    unknown = f"not enforced: {REASON.replace('test_suite', 'test_marked')}"
    for title in ("test_body", "test_handled", "Case.test_unittest"):
        assert found.report(title)[:2] == [unknown, remedy]
    assert found.report("ERROR at setup of test_fixture")[1] == remedy


@pytest.mark.skipif(not SINCE_9, reason="pytest reports each subtest since 9.0")
def test_a_subtest_in_which_the_device_is_first_named_runs_again(suite):
    suite.write(RESTARTED)
    ran = suite.run("--attnmem-backend=simulated:A100-80GB", "--attnmem-default=1 GiB")
    assert not {"failed", "errors", "skipped"} & set(ran.outcomes)
    assert ran.outcome("Case::test_it") == "within"
