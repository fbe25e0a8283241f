"""Block-wise code and code with a cache get a verdict, or a reason that says what to do."""

import pytest

HEAD = """
import pytest, torch
budget, sizes = pytest.mark.memory_budget, pytest.mark.parametrize
"""
BLOCKS = f"""{HEAD}
def blocks(N, mask):
    allowed = torch.ones(N, N, dtype=torch.bool) if mask else None  # guilty
    for start in range(0, N, 128):
        q, k = torch.empty(min(128, N), 64), torch.empty(min(256, N), 64)
        scores = q @ k.mT
    return torch.empty(N, 64)

@budget("O(N*d)")
@sizes(("N", "mask"), [(1024, True), (1024, False)])
def test_blocks(N, mask):
    blocks(N, mask)
"""


@pytest.mark.parametrize("backend", ["cpu", "simulated:H100"])
def test_blocks_are_judged_by_what_is_beneath_them(suite, backend):
    suite.write(BLOCKS)
    ran = suite.run(f"--attnmem-backend={backend}")
    assert ran.outcome("test_blocks[1024-False]") == "within"
    row = ran.row("test_blocks[1024-True]")
    assert row["outcome"] == "over"
    assert row["reason"].endswith("the contract is O(N*d)")
    line = 1 + next(n for n, text in enumerate(BLOCKS.splitlines()) if "# guilty" in text)
    (held,) = (shown for shown in ran.result.outlines if "[1024, 1024] bool" in shown)
    assert f"test_suite.py:{line}" in held


def test_sizes_that_cannot_tell_are_not_enforced_and_show_the_points(suite):
    suite.write(f"""{HEAD}
@budget("O(N*d)")
@sizes("N", [1024])
def test_it(N):
    torch.ones(N + N * 37 % 1000)
""")
    ran = suite.run()
    points = (
        "3.4 KiB at 128, 2.8 KiB at 256, 2.3 KiB at 384, 5.7 KiB at 512, 4.6 KiB at 768, 6.3 KiB"
        " at 832, 4.1 KiB at 896, 5.8 KiB at 960, 7.5 KiB at 1024"
    )
    assert ran.outcome("test_it[1024]") == (
        f"not enforced: sizes cannot tell how ones at test_suite.py:8 grows with N: {points}"
    )
    assert ran.outcomes == {"passed": 1}
    assert suite.run("--attnmem-strict").outcomes == {"failed": 1}


@pytest.mark.parametrize("backend", ["cpu", "simulated:H100"])
def test_a_cache_that_is_filled_once_asks_for_a_warmup(suite, backend):
    suite.write(f"""{HEAD}
cache = {{}}

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
""")
    ran = suite.run(f"--attnmem-backend={backend}")
    assert ran.outcome("test_first[512]") == (
        "not enforced: peak is 4.1 MiB when the test runs first and 128.0 KiB when it runs again:"
        " state that is filled once, most likely; warmup=1 leaves it out"
    )
    assert ran.outcome("test_warm[512]") == "within"
    assert ran.outcomes == {"passed": 2}
