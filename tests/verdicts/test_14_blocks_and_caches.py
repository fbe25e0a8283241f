"""Block-wise code, a cache, and a body that fails at another size get a verdict, or a reason."""

import pytest
import torch

from pytest_attnmem import BudgetExceeded, growth

BLOCKS = """
def blocks(N, mask):
    allowed = torch.ones(N, N, dtype=torch.bool) if mask else None
    for start in range(0, N, 128):
        q, k = torch.empty(min(128, N), 64), torch.empty(min(256, N), 64)
        scores = q @ k.mT
    return torch.empty(N, 64)

@budget("O(N*d)")
@sizes(("N", "mask"), [(1024, True), (1024, False)])
def test_blocks(N, mask):
    blocks(N, mask)
"""


def test_blocks_are_judged_by_what_is_beneath_them(short, backend):
    ran = short.tests(BLOCKS).run(f"--attnmem-backend={backend}")
    assert ran.outcome("test_blocks[1024-False]") == "within"
    row = ran.row("test_blocks[1024-True]")
    assert row["outcome"] == "over"
    assert row["reason"].endswith("the contract is O(N*d)")
    (held,) = (shown for shown in ran.result.outlines if "[1024, 1024] bool" in shown)
    assert "test_suite.py:6 " in held


def test_a_shape_shows_what_four_sizes_of_bytes_do_not():
    def blocks(N):
        allowed = torch.ones(N, N, dtype=torch.bool)
        for _ in range(0, N, 128):
            torch.empty(512, 256)
        return allowed

    grown = growth(blocks, N=[256, 512, 1024, 2048], backend="cpu")
    with pytest.raises(BudgetExceeded) as error:
        grown.assert_within("O(N)")
    line = blocks.__code__.co_firstlineno + 1
    assert str(error.value).startswith(
        f"growth: ones at test_14_blocks_and_caches.py:{line} grows as N^2 on cpu;"
    )


def test_the_second_run_counts_where_the_first_fills_a_cache():
    cache = {}

    def step(N):
        if not cache:
            cache["gradient"] = torch.empty(256)
        return torch.empty(N)

    grown = growth(step, N=[64, 128, 256, 512], backend="simulated:H100")
    first = (
        "peak at N=64 was 1.0 KiB more in the first run than in the second, which counts: gradients"
        " or a cache, most likely"
    )
    assert grown.first_run == first
    assert str(grown).splitlines()[-1] == f"  {first}"
    with pytest.raises(BudgetExceeded, match=first):
        grown.assert_within("O(1)")


def test_sizes_that_cannot_tell_are_not_enforced_and_show_the_points(short):
    ran = short.tests("""
@budget("O(N*d)")
@sizes("N", [1024])
def test_it(N):
    torch.ones(N * N.bit_length())
""").run()
    points = (
        "4.0 KiB at 128, 9.0 KiB at 256, 13.5 KiB at 384, 20.0 KiB at 512, 30.0 KiB at 768, 32.5"
        " KiB at 832, 35.0 KiB at 896, 37.5 KiB at 960, 44.0 KiB at 1024"
    )
    assert ran.outcome("test_it[1024]") == (
        f"not enforced: sizes cannot tell how ones at test_suite.py:8 grows with N: {points}"
    )
    assert ran.outcomes == {"failed": 1}


def test_a_cache_that_is_filled_once_needs_no_warmup(short, backend):
    ran = short.tests("""
cache = {}

def attention(N):
    if "table" not in cache:
        cache["table"] = torch.empty(1 << 20)
    torch.empty(N, 64)

@budget("O(N)")
@sizes("N", [512])
def test_first(N):
    attention(N)

@pytest.fixture
def empty():
    cache.clear()

@budget("O(N)", warmup=1)
@sizes("N", [512])
def test_warm(empty, N):
    attention(N)
""").run(f"--attnmem-backend={backend}")
    assert ran.outcome("test_first[512]") == "within"  # each size is measured with it filled
    assert ran.outcome("test_warm[512]") == "within"
    assert ran.outcomes == {"passed": 2}


def test_scratch_that_begins_at_a_size_leaves_no_doubt(short):
    """A reduction takes scratch from some size on, and a training step ends in a reduction."""
    short.tests("""
@budget("O(N)")
@sizes("N", [512])
def test_step(qkv, N):
    x, _, _ = qkv(1, 1, N, 64)
    layer = torch.nn.Linear(64, 64, device=x.device)
    layer(x).square().sum().backward()
""")
    assert short.run("--attnmem-backend=simulated:H100").outcome("test_step[512]") == "within"


STORAGES = """
@pytest.mark.memory_budget("O(N)")
@pytest.mark.parametrize("N", [64])
@pytest.mark.parametrize("make", [
    lambda N: torch.UntypedStorage(N * N * 4),
    lambda N: torch.zeros(N).untyped_storage().resize_(N * N * 4),
    lambda N: torch.UntypedStorage(N * 4),
], ids=["made", "resized", "allowed"])
def test_it(N, make):
    torch.zeros(10**6)
    make(N)
"""


def test_a_storage_beneath_the_peak_counts_though_it_is_of_no_tensor(short):
    ran = short.tests(STORAGES).run("--attnmem-backend", "cpu", "--attnmem-explain", "off")
    assert ran.outcomes == {"failed": 2, "passed": 1}
    for name in ("made", "resized"):
        reason = "memory of no tensor, beneath the peak, grows as 4*N^2"
        assert reason in ran.outcome(f"test_it[{name}-64]")


@pytest.mark.skipif(not hasattr(pytest, "Subtests"), reason="pytest 9 has subtests")
def test_a_subtest_that_fails_at_another_size_tells_nothing(short):
    ran = short.tests("""
@budget("O(N)")
@sizes("N", [512])
def test_it(subtests, N):
    with subtests.test("square"):
        assert N == 512
        torch.empty(N, N)
""").run("--attnmem-backend=simulated:H100")
    row = ran.row("test_it[512]")
    assert row["outcome"] == "not enforced"
    assert row["reason"].startswith("the test raised AssertionError: assert 64 == 512")


def test_a_larger_size_that_does_not_fit_is_left_out(short):
    short.tests("""
@budget("O(N)")
@sizes(("B", "N"), [(1, 64)])
def test_it(B, N):
    torch.empty(N, 1 if B == 1 else 1 << 45)
""")
    outcome = short.run().outcome("test_it[1-64]")
    assert outcome.startswith("not enforced: B was not varied: the test raised RuntimeError: ")


def test_a_contract_takes_no_exact_and_no_tolerance(short):
    ran = short.tests("""
@sizes("N", [64])
@budget("O(N)", exact=True)
def test_exact(N):
    torch.empty(N)

@sizes("N", [64])
@budget("O(N)", tolerance="5%")
def test_tolerance(N):
    torch.empty(N)
""").run()
    text = (
        "memory_budget: contract O(N) takes no exact and no tolerance: it bounds the growth"
        " of memory, not its amount   test_suite.py:{}"
    )
    assert ran.outcome("test_exact[64]") == f"not enforced: {text.format(5)}"
    assert ran.outcome("test_tolerance[64]") == f"not enforced: {text.format(10)}"
