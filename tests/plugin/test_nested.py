"""A session inside a session, as in the tests of plugins, leaves nothing behind."""

import sys
import threading


def test_a_session_inside_a_budgeted_test(scripted):
    scripted.ini["addopts"] = "-p pytester"
    ran = scripted.tests("""
import gc

INNER = '''
import pytest
import torch

@pytest.mark.memory_budget("1 KiB")
def test_over(): torch.ones(4096)

@pytest.mark.memory_budget("1 KiB", exact=True)
def test_within(): torch.ones(256)
'''

@pytest.mark.memory_budget(10)
def test_outer(pytester):
    memory.use(10)
    pytester.makepyfile(INNER)
    pytester.runpytest("-pno:asyncio", "-pno:hypothesispytest").assert_outcomes(passed=1, failed=1)
    assert not gc.isenabled()

@pytest.mark.memory_budget(10)
def test_next(): memory.use(10)
""").run()
    assert ran.outcomes == {"passed": 2}
    assert [row["outcome"] for row in ran.rows] == ["within", "within"]


def test_a_session_on_the_cpu_inside_a_window_on_the_cpu(suite):
    suite.ini["addopts"] = "-p pytester"
    ran = suite.tests("""
INNER = '''
import pytest
import torch

@pytest.mark.memory_budget("16 KiB", exact=True)
def test_it(): torch.ones(4096)
'''

@pytest.mark.memory_budget("1 MiB")
def test_outer(pytester):
    pytester.makepyfile(INNER)
    pytester.runpytest("-pno:asyncio", "-pno:hypothesispytest").assert_outcomes(passed=1)
""").run()
    assert ran.outcomes == {"passed": 1}
    assert ran.row("test_outer")["peak_bytes"] >= 16384


def test_a_session_leaves_no_hooks_in_the_process(suite):
    from torch.autograd import profiler

    before = (threading.getprofile(), sys.getprofile(), profiler._enable_profiler)
    suite.tests("""
@pytest.mark.memory_budget("1 KiB")
def test_over(attnmem):
    with attnmem.region("part", "1 B"):
        torch.ones(4096)
""")
    assert suite.run().outcomes == {"failed": 1}
    assert (threading.getprofile(), sys.getprofile(), profiler._enable_profiler) == before
