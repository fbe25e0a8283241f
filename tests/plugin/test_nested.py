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

def inner(pytester):
    pytester.makepyfile(INNER)
    pytester.runpytest("-pno:asyncio", "-pno:hypothesispytest").assert_outcomes(passed=1, failed=1)

@pytest.mark.memory_budget(10)
def test_outer(pytester):
    memory.use(10)
    inner(pytester)
    assert not gc.isenabled()

@pytest.mark.memory_budget(10)
def test_next(): memory.use(10)

@pytest.mark.memory_budget("1 MiB", backend="cpu")
def test_on_the_cpu(pytester): inner(pytester)
""").run()
    assert ran.outcomes == {"passed": 3}
    assert {row["outcome"] for row in ran.rows} == {"within"}
    assert ran.row("test_on_the_cpu")["peak_bytes"] >= 16384


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
