"""Garbage collection: no object is freed by chance in a window, and none is kept forever."""

import gc
import json
import sys

import pytest

from pytest_attnmem.measurement.garbage import unfreeze_all


@pytest.fixture
def _nothing_frozen():
    """Thaws the objects that other tests freeze, as in a session of its own. It is slow."""
    unfreeze_all()
    yield
    assert gc.get_freeze_count() == 0
    assert gc.isenabled()


#: For tests that depend on the session freezing objects.
FREEZING = pytest.mark.usefixtures("_nothing_frozen")


def test_automatic_collection_is_off_in_the_body_and_as_before_around_it(scripted):
    scripted.tests("""
import gc

@pytest.fixture
def around():
    assert gc.isenabled()
    yield
    assert gc.isenabled()

@pytest.fixture
def off():
    gc.disable()
    yield
    assert not gc.isenabled()
    gc.enable()

@pytest.mark.memory_budget(10)
def test_marked(around):
    assert not gc.isenabled()
    memory.use(10)

@pytest.mark.memory_budget(10)
def test_over(around): memory.use(11)

@pytest.mark.memory_budget(10)
def test_failing(around): raise ValueError

@pytest.mark.memory_budget(10)
def test_off(off): memory.use(10)

def test_unmarked(): assert gc.isenabled()
""")
    assert scripted.run().outcomes == {"passed": 3, "failed": 2}


@FREEZING
@pytest.mark.parametrize(
    "end", ["memory.use(10)", "pytest.exit('enough')", "raise KeyboardInterrupt"]
)
def test_what_is_frozen_is_thawed_at_the_end_also_of_a_session_cut_short(scripted, end):
    ran = scripted.tests(f"""
import gc

@pytest.mark.memory_budget(10)
def test_marked():
    assert gc.get_freeze_count() > 0
    {end}
""").run()
    assert "failed" not in ran.outcomes
    assert gc.get_freeze_count() == 0
    assert gc.isenabled()


def test_what_somebody_else_froze_stays_frozen(scripted):
    scripted.tests("""
import gc

@pytest.mark.memory_budget(10)
def test_marked(): memory.use(10)

def test_frozen(): assert gc.get_freeze_count() > 0
""")
    gc.freeze()
    assert scripted.run().outcomes == {"passed": 2}
    assert gc.get_freeze_count() > 0


@pytest.fixture
def run_forgetting(suite):
    """Runs a suite without pytester's recorder and without reruns, which keep every failure."""

    def run():
        before = set(sys.modules)
        absent = ("cacheprovider", "hypothesispytest", "asyncio", "rerunfailures")
        absent += ("unraisableexception",)  # it would collect all garbage five times
        options = ["-q", "-s", *(f"-pno:{plugin}" for plugin in absent)]
        code = pytest.main([*options, f"--rootdir={suite.path}", "--attnmem-json=rows.json"])
        for name in set(sys.modules) - before:
            del sys.modules[name]
        results = json.loads((suite.path / "rows.json").read_text("utf-8"))["results"]
        return code, [row["outcome"] for row in results]

    return run


@pytest.fixture
def cycles(suite):
    """A suite whose tests make tensors in cycles."""
    suite.head = """
import weakref
import pytest
import torch

class Node:
    def __init__(self):
        self.tensor = torch.ones(1 << 16)
        self.itself = self

refs = []

def make():
    node = Node()
    refs.append(weakref.ref(node.tensor))
    return node
"""
    return suite


@FREEZING
def test_tensors_in_cycles_of_an_earlier_test_do_not_disturb(cycles):
    cycles.tests("""
def test_unmarked(): make()

@pytest.mark.memory_budget("256 KiB", exact=True)
@pytest.mark.parametrize("before", [0, 1])
def test_it(before):
    assert refs[before]() is None
    make()
""")
    assert cycles.run().outcomes == {"passed": 3}


@FREEZING
@pytest.mark.parametrize("marked", ["", '@pytest.mark.memory_budget("1 MiB")'])
def test_tensors_of_an_earlier_failure_do_not_disturb(cycles, run_forgetting, marked):
    cycles.tests(f"""
{marked}
@pytest.mark.xfail(strict=True)
def test_failing():
    node = make()
    raise ValueError

@pytest.mark.memory_budget("256 KiB", exact=True)
def test_first(): torch.ones(1 << 16)

@pytest.mark.memory_budget("256 KiB", exact=True)
def test_second():
    assert refs[0]() is None
    torch.ones(1 << 16)
""")
    code, outcomes = run_forgetting()
    assert code == pytest.ExitCode.OK
    assert outcomes[-2:] == ["within", "within"]


@FREEZING
def test_the_fixtures_of_a_module_become_collectable(cycles, run_forgetting):
    cycles.tests("""
@pytest.fixture(scope="module")
def node(): yield make()

@pytest.mark.memory_budget("1 MiB")
@pytest.mark.parametrize("n", range(3))
def test_it(node, n): torch.ones(16)
""")
    cycles.write(
        """
import test_suite
import pytest
import torch

@pytest.mark.memory_budget("1 MiB")
def test_it():
    torch.ones(16)
    assert test_suite.refs[0]() is None
""",
        "test_the_next.py",
    )
    assert run_forgetting() == (pytest.ExitCode.OK, ["within"] * 4)


@FREEZING
def test_what_fixtures_and_results_held_is_gone_with_the_test(suite, run_forgetting):
    suite.tests("""
import weakref

refs = []

@pytest.fixture
def weights():
    weights = torch.ones(64)
    refs.append(weakref.ref(weights))
    return weights

@pytest.mark.memory_budget("1 MiB")
def test_marked(weights): weights + 1

@pytest.mark.xfail(strict=True)
@pytest.mark.memory_budget("1 B")
def test_over(weights, attnmem):
    measured = attnmem.measure(weights.clone)
    refs.append(weakref.ref(measured.result))
    attnmem.check(measured, "1 B")

@pytest.mark.memory_budget("1 MiB")
def test_next():
    torch.ones(64)
    assert [ref() for ref in refs] == [None] * len(refs) and len(refs) >= 3
""")
    code, _ = run_forgetting()
    assert code == pytest.ExitCode.OK


@pytest.mark.parametrize("metric", ["peak", "retained"])
def test_a_cycle_that_the_body_makes_lives_to_the_end_of_it(cycles, metric):
    cycles.tests(f"""
@pytest.mark.memory_budget("512 KiB", metric={metric!r}, exact=True)
def test_it():
    make()
    make()
""")
    assert cycles.run().outcomes == {"passed": 1}


def test_fifty_runs_of_one_test_need_the_same(suite):
    ran = suite.tests("""
@pytest.mark.memory_budget("2*N*N*itemsize", exact=True, itemsize=4)
@pytest.mark.parametrize("run", range(50))
@pytest.mark.parametrize("N", [64])
def test_it(N, run):
    x = torch.ones(N, N)
    y = x.neg()
    del x
    y.sum()
    torch.ones(N, N)
""").run()
    assert ran.outcomes == {"passed": 50}
    assert {row["peak_bytes"] for row in ran.rows} == {2 * 64 * 64 * 4}


def test_a_marker_that_a_fixture_adds_is_enforced_or_told_in_one_line(suite):
    ran = suite.tests("""
@pytest.fixture
def budgeted(request, limit): request.node.add_marker(pytest.mark.memory_budget(limit))

@pytest.mark.parametrize("limit", ["1 KiB"])
def test_over(budgeted, limit): torch.empty(1024)

@pytest.mark.parametrize("limit", ["1 KiB"])
def test_within(budgeted, limit): torch.empty(16)

@pytest.mark.parametrize("limit", ["1 KB"])
def test_bad(budgeted, limit): pass

@pytest.fixture
def off():
    torch.set_grad_enabled(False)
    yield
    torch.set_grad_enabled(True)

@pytest.mark.memory_budget("1 KiB")
def test_without_gradients(off): torch.empty(16)
""").run()
    assert ran.outcomes == {"failed": 2, "passed": 2}
    over = ran.short("test_over[1 KiB]")
    assert over.startswith("FAILED: BudgetExceeded: peak 4.0 KiB exceeds budget")
    assert ran.outcome("test_within[1 KiB]") == "within"
    bad = ran.short("test_bad[1 KB]")
    assert bad.startswith("FAILED: Failed: memory_budget: cannot parse")


def test_what_was_frozen_is_found_again_by_a_test_that_is_not_measured(suite):
    unfreeze_all()  # or a session would leave the freezing to those who froze before it
    suite.tests("""
import gc, weakref

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


def test_regions_that_overlap_are_measured_and_one_in_a_generator_leaves_nothing_behind(suite):
    ran = suite.tests("""
import asyncio, gc

KEPT = []

def test_it(attnmem):
    async def part(name, first, then):
        with attnmem.region(name):
            await asyncio.sleep(first)
            torch.empty(16)
            await asyncio.sleep(then)

    async def both(): await asyncio.gather(part("a", 0, 0.01), part("b", 0.005, 0.02))

    asyncio.run(both())

@pytest.mark.memory_budget("1 MiB")
def test_left(attnmem):
    def parts():
        with attnmem.region("left"):
            yield torch.empty(16)
    KEPT.append(parts())
    next(KEPT[0])

def test_next(): assert gc.isenabled()
""").run()
    assert ran.outcomes == {"passed": 3}
    found = {row["region"] for row in ran.rows if row["nodeid"].endswith("test_it")}
    assert found == {"a", "b"}
