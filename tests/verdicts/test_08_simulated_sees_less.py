"""Threads are seen whoever started them, and compiled code is not enforced, in one line."""

import pytest

SUITE = """
from concurrent.futures import ThreadPoolExecutor
from torch.nn.attention.flex_attention import flex_attention

@pytest.fixture(scope="module")
def pool():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(len, ()).result()
        yield pool

@pytest.mark.memory_budget("1 MiB")
def test_pool(pool):
    torch.ones(1), pool.submit(lambda: torch.ones(16 << 20).mul_(2)).result()

@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.memory_budget("1 MiB")
def test_flex(qkv):
    flex_attention(*qkv(1, 1, 128, 16))
"""


@pytest.fixture(autouse=True, scope="module")
def _flex_imported(simulation_imported):
    """Import flex attention before pytester notes the modules that it keeps."""
    import torch.nn.attention.flex_attention  # noqa: F401


def test_threads_of_a_fixture_are_measured_and_flex_attention_is_not_enforced(suite):
    ran = suite.tests(SUITE).run("--attnmem-backend=simulated")
    assert ran.outcome("test_pool").startswith("over: peak 64.0 MiB exceeds budget 1.0 MiB")
    assert ran.outcome("test_flex") == "not enforced: compiled code cannot be simulated"
