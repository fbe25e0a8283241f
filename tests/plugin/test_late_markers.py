"""Markers that fixtures add, and state that tests leave."""

from pytest_attnmem.measurement.garbage import unfreeze_all


def test_a_marker_that_a_fixture_adds_is_enforced(suite):
    suite.write("""
import pytest, torch

@pytest.fixture
def budgeted(request): request.node.add_marker(pytest.mark.memory_budget("1 KiB"))

def test_over(budgeted): torch.empty(1024)
def test_within(budgeted): torch.empty(16)
""")
    ran = suite.run()
    assert ran.outcomes == {"failed": 1, "passed": 1}
    assert ran.short("test_over").startswith("FAILED: BudgetExceeded: peak 4.0 KiB exceeds budget")
    assert ran.outcome("test_within") == "within"


def test_a_bad_one_is_told_in_one_line(suite):
    suite.write("""
import pytest

@pytest.fixture
def budgeted(request): request.node.add_marker(pytest.mark.memory_budget("1 KB"))

def test_it(budgeted): pass
""")
    assert suite.run().short("test_it").startswith("FAILED: Failed: memory_budget: cannot parse")


def test_gradients_that_are_off_for_good_disturb_nothing(suite):
    suite.write("""
import pytest, torch

@pytest.fixture(autouse=True, scope="module")
def off():
    torch.set_grad_enabled(False)
    yield
    torch.set_grad_enabled(True)

@pytest.mark.memory_budget("1 KiB")
def test_over(): torch.empty(1024)

@pytest.mark.memory_budget("1 KiB")
def test_within(): torch.empty(16)
""")
    assert suite.run().outcomes == {"failed": 1, "passed": 1}


def test_what_was_frozen_is_found_again_by_a_test_that_is_not_measured(suite):
    unfreeze_all()  # or a session would leave the freezing to those who froze before it
    suite.write("""
import gc, weakref
import pytest, torch

class Node: pass
HELD = [Node()]
HELD[0].itself = HELD[0]

@pytest.mark.memory_budget("1 KiB")
def test_measured(): torch.empty(16)

def test_plain():
    dead = weakref.ref(HELD.pop())
    gc.collect()
    assert dead() is None
""")
    assert suite.run().outcomes == {"passed": 2}


def test_regions_that_overlap_are_each_measured(suite):
    suite.write("""
import asyncio
import torch

def test_it(attnmem):
    async def part(name, first, then):
        with attnmem.region(name):
            await asyncio.sleep(first)
            torch.empty(16)
            await asyncio.sleep(then)

    async def both(): await asyncio.gather(part("a", 0, 0.01), part("b", 0.005, 0.02))

    asyncio.run(both())
""")
    ran = suite.run()
    assert ran.outcomes == {"passed": 1}
    assert {row["region"] for row in ran.rows} == {"a", "b"}


def test_a_generator_left_in_a_region_leaves_nothing_behind(suite):
    suite.write("""
import gc
import pytest, torch

KEPT = []

@pytest.mark.memory_budget("1 MiB")
def test_left(attnmem):
    def parts():
        with attnmem.region("part"):
            yield torch.empty(16)
    KEPT.append(parts())
    next(KEPT[0])

def test_next(): assert gc.isenabled()
""")
    assert suite.run().outcomes == {"passed": 2}
