"""Tests that read values which nobody can know: skipped where they read them, and never red."""

import pytest

SUITE = """
import unittest, pytest, torch

def read():
    x = torch.ones(2, device="cuda")
    x.__dict__["fake_mode"].values.lose([x], "a kernel wrote it")
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
    "Tensor.item needs the values of a tensor at test_suite.py:7, which are not known:"
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
    found = ran("--attnmem-default=1 GiB", "--attnmem-strict")
    assert found.outcomes["errors"] == 1
    assert "skipped" not in found.outcomes


@pytest.mark.skipif(not SINCE_9, reason="pytest reports each subtest since 9.0")
def test_a_subtest_in_which_the_device_is_first_named_runs_again(suite):
    suite.write(RESTARTED)
    ran = suite.run("--attnmem-backend=simulated:A100-80GB", "--attnmem-default=1 GiB")
    assert not {"failed", "errors", "skipped"} & set(ran.outcomes)
    assert ran.outcome("Case::test_it") == "within"
