"""A contract on a method of a ``unittest.TestCase`` says what to write in its place."""


def test_a_method_takes_no_argument_to_vary(suite):
    suite.write("""
import unittest
import pytest

@pytest.mark.memory_budget("O(N)")
class TestCase(unittest.TestCase):
    def test_it(self):
        pass
""")
    ran = suite.run("--attnmem-backend=cpu")
    assert ran.outcome("TestCase::test_it") == (
        "not enforced: memory_budget: contract O(N) varies an argument, and a method of a"
        " unittest.TestCase takes none; write a function, or use attnmem.growth   test_suite.py:5"
    )
    assert ran.outcomes == {"errors": 1}
