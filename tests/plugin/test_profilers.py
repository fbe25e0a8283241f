"""A thread can have one profiler, and the cpu backend uses it; a test may use its own first."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _what_a_profiler_imports():
    """It can be imported once only, and pytester forgets what was imported meanwhile."""
    import torch._inductor.config  # noqa: F401


PROFILERS = {
    "torch.profiler": "torch.profiler.profile()",
    "with memory": "torch.profiler.profile(profile_memory=True)",
    "autograd": "torch.autograd.profiler.profile()",
    "legacy": "torch.autograd.profiler_legacy.profile()",
}


@pytest.mark.parametrize("profiler", PROFILERS.values(), ids=PROFILERS)
def test_a_profiler_of_the_tests_own_works_and_the_budget_is_not_enforced(suite, profiler):
    suite.write(f"""
import pytest
import torch

@pytest.mark.memory_budget("1 KiB")
def test_profiled():
    torch.ones(16)
    with {profiler} as profiler:
        torch.ones(4096)
    assert "aten::ones" in {{event.key for event in profiler.key_averages()}}

@pytest.mark.memory_budget("1 KiB", exact=True)
def test_next(): torch.ones(256)
""")
    ran = suite.run("-Wignore::FutureWarning")
    assert ran.outcomes == {"failed": 1, "passed": 1}  # the profiler has its events
    assert ran.outcome("test_profiled") == (
        "not enforced: the test started a profiler, which takes the place of ours"
    )
    assert ran.outcome("test_next") == "within"


def test_a_profiler_that_runs_already_is_not_disturbed(suite):
    suite.write("""
import pytest
import torch

@pytest.fixture
def profiler():
    with torch.profiler.profile() as profiler:
        yield profiler
    assert "aten::ones" in {event.key for event in profiler.key_averages()}

@pytest.mark.memory_budget("1 KiB")
def test_it(profiler): torch.ones(4096)
""")
    ran = suite.run()
    assert ran.outcomes == {"failed": 1}  # not in the teardown of the fixture
    assert ran.outcome("test_it") == "not enforced: another profiler is running on this thread"
