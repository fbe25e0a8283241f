"""A test that ends the profiler of its thread is not enforced, and disturbs no later test."""

import pytest

#: Things that a test may do to the profiler of the cpu backend.
CALLS = {
    "ended": "torch._C._autograd._disable_profiler_legacy()",
    "ended twice": """
    torch._C._autograd._disable_profiler_legacy()
    with contextlib.suppress(RuntimeError): torch._C._autograd._disable_profiler_legacy()""",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_the_window_is_not_enforced_and_the_next_is(suite, call):
    ran = suite.tests(f"""
import contextlib

@pytest.mark.memory_budget("1 KiB")
def test_it():
    torch.ones(256)
    {call.strip()}
    torch.ones(4096)

@pytest.mark.memory_budget("1 KiB", exact=True)
def test_next(): torch.ones(256)

def test_region(attnmem):
    with attnmem.region("part", "1 KiB"): {call.strip().splitlines()[0]}
    with attnmem.region("next", "1 KiB", exact=True): torch.ones(256)
""").run("--attnmem-strict=off")
    assert ran.outcomes == {"passed": 3}
    exchanged = "not enforced: the profiler of this thread was exchanged meanwhile"
    assert ran.outcome("test_it") == ran.outcome("test_region", "part") == exchanged
    assert ran.outcome("test_next") == ran.outcome("test_region", "next") == "within"
