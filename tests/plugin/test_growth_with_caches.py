"""Contracts of tests that fill caches, find them filled, or leave memory behind."""

CACHES = """
from functools import lru_cache
import pytest
import torch

one = lru_cache(maxsize=1)(lambda n: torch.ones(n, n).tril())

KEPT = {}
def kept(n):
    if n not in KEPT:
        KEPT[n] = torch.ones(n, n)
    return KEPT[n]

pytestmark = pytest.mark.parametrize("N", [256])
"""


def test_what_a_cache_holds_counts_whoever_filled_it(suite):
    suite.write(
        CACHES
        + """
def test_fills(N): one(256), kept(256)

@pytest.mark.memory_budget("O(N^2)")
def test_cached(N): one(N)[0] + torch.ones(N)

@pytest.mark.memory_budget("O(N)")
def test_over(N): one(N)[0] + torch.ones(N)

@pytest.mark.memory_budget("O(N)")
def test_kept(N): kept(N)[0] + torch.ones(N)

@pytest.mark.memory_budget("O(N)", warmup=1)  # at each size
def test_warm(N): one(N)[0] + torch.ones(N)
"""
    )
    for chosen in ((), ("-k", "not fills")):
        ran = suite.run("--attnmem-backend=cpu", *chosen)
        assert [row["outcome"] for row in ran.rows] == ["within", "over", "over", "within"]
        assert ran.report("test_kept[256]")[0].startswith("peak grows as 4*N^2")


def test_a_test_that_leaves_memory_at_each_run_is_over(suite):
    ran = suite.tests("""
pytestmark = pytest.mark.parametrize("N", [256])
STATES, STACKED = [], []

@pytest.fixture
def states(): return []

@pytest.mark.memory_budget("O(N)")
def test_leak(N): STATES.append(torch.ones(N))

@pytest.mark.memory_budget("O(N)")
def test_of_its_own(N, states): states.append(torch.ones(N))

@pytest.mark.memory_budget("O(N)")
def test_garbage(N):
    cycle = [torch.ones(N)]
    cycle.append(cycle)

def test_others(N): assert len(STATES) == 1

@pytest.mark.memory_budget("O(N)")
def test_more(N):
    STACKED.append(torch.ones(N))
    torch.stack([state.sum() for state in STACKED])
""").run("--attnmem-backend=cpu")
    assert ran.outcomes == {"passed": 3, "failed": 2}
    assert ran.report("test_more[256]")[0].startswith("each run leaves +1.0 KiB: ones at")
    assert ran.outcome("test_of_its_own[256]") == ran.outcome("test_garbage[256]") == "within"
    assert ran.report("test_leak[256]")[0].startswith(
        "each run leaves +1.0 KiB: ones at test_suite.py:11"
    )
    assert ran.report("test_leak[256]")[-1] == "  attnmem explain retained"


def test_what_the_longest_run_so_far_keeps_counts_too(suite):
    ran = suite.tests("""
pytestmark = pytest.mark.parametrize("N", [64])

class Rows:
    mask = None
    def __call__(self, n):
        if self.mask is None or len(self.mask) < n:
            self.mask = torch.ones(n, n)
        return self.mask[:n, 0] + torch.ones(n)

SHARED = Rows()

@pytest.fixture
def rows(): return Rows()

@pytest.mark.memory_budget("O(N)")
def test_own(rows, N): rows(N)

@pytest.mark.memory_budget("O(N)")
def test_makes(N): SHARED(N)

@pytest.mark.memory_budget("O(N)")
def test_finds(N): SHARED(N)

@pytest.mark.memory_budget("O(N^2)")
def test_kept(rows, N): rows(N)

def test_after(N): assert SHARED.mask.shape == (64, 64)
""").run("--attnmem-backend=cpu")
    assert [row["outcome"] for row in ran.rows] == ["over", "within", "over", "over"]
    assert ran.outcomes == {"passed": 2, "failed": 3}
    for test in ("test_own[64]", "test_makes[64]", "test_finds[64]"):
        assert ran.report(test)[0].startswith("peak grows as 4*N^2")


def test_what_each_run_leaves_is_counted_beside_a_tensor_with_a_history(suite):
    ran = suite.tests("""
LOSSES, STATES = [(torch.ones(64, requires_grad=True) * 2).sum()], []

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
def test_leak(N): STATES.append(torch.ones(N))

@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
def test_logged(N, caplog): STATES[:] = [torch.ones(N)]
""").run("--attnmem-backend=simulated")
    assert ran.outcomes == {"passed": 1, "failed": 1}
    assert ran.report("test_leak[64]")[0].startswith("each run leaves +256 B: ones at")
