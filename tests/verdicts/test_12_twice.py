"""A body that starts again and fails says that it ran twice."""

import pytest

#: The device has a name that nobody can read in the code: else a body runs once.
TWICE = """
import unittest
import pytest, torch

CUDA = "cu" "da "

@pytest.mark.memory_budget("1 MiB")
def test_it(made=[]):
    table = torch.ones(4)
    made.append(1)
    table.to(CUDA.strip())
    assert len(made) == 1

@pytest.mark.memory_budget("1 MiB")
class TestCase(unittest.TestCase):
    made = 0

    def test_it(self):
        table = torch.ones(4)
        TestCase.made += 1
        table.to(CUDA.strip())
        self.assertEqual(TestCase.made, 1)

@pytest.mark.memory_budget("1 MiB")
def test_within():
    torch.ones(4).to(CUDA.strip())

@pytest.mark.memory_budget("1 B")
def test_over():
    torch.ones(4).to(CUDA.strip())
"""


@pytest.fixture
def ran(suite):
    suite.write(TWICE)
    return suite.run("--attnmem-backend=simulated:H100", "-rA")


@pytest.mark.parametrize(("test", "line"), [("test_it", 11), ("TestCase.test_it", 21)])
def test_a_failure_says_that_the_body_ran_twice(ran, test, line):
    assert (
        f"the body ran twice: 'cuda' is named at test_suite.py:{line}, after tensors were made"
        " without a device; name the device of each tensor, and it runs once"
    ) in ran.report(test)
    assert any("2 == 1" in line or "2 != 1" in line for line in ran.report(test))


def test_a_verdict_does_not(ran):
    assert ran.text.count("the body ran twice") == 2
    assert ran.outcome("test_within") == "within"
    assert ran.row("test_over")["outcome"] == "over"
