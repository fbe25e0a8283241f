"""Tests of the line that a failure names, which editors and annotations show."""

import re

SUITE = """
import pytest
import torch

@pytest.mark.memory_budget("1 KiB")
def test_marked(): torch.empty(1024)

def test_checked(attnmem):
    m = attnmem.measure(torch.empty, 1024)
    attnmem.check(m, "1 KiB")

def test_in_a_region(attnmem):
    with attnmem.region("it", "1 KiB"):
        torch.empty(1024)

def test_of_the_user():
    helper()

def helper(): raise ValueError
"""


def test_it_is_a_line_of_the_test(suite):
    suite.write(SUITE)
    lines = suite.run("--tb=line").text.splitlines()
    found = [re.search(r"test_suite\.py:(\d+): (?:\w+\.)?(\w+)", line) for line in lines]
    assert [(int(one[1]), one[2]) for one in found if one] == [
        (5, "BudgetExceeded"),
        (10, "BudgetExceeded"),
        (13, "BudgetExceeded"),
        (19, "ValueError"),
    ]
