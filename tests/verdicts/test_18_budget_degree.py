"""A budget grows with N where it is written in M, and M is what N is."""

import pytest

SUITE = """
@pytest.mark.memory_budget({limit!r}, {symbols})
@pytest.mark.parametrize({names!r}, [{sizes}])
def test_it({arguments}):
    a, b, c = (torch.empty(N, N) for _ in range(3))
"""


@pytest.mark.parametrize(
    ("limit", "symbols", "names", "sizes", "told"),
    [
        ("2*B*H*N*M*itemsize", "B=1, H=1, itemsize=4", "N", "256", "8*N^2"),
        ("2*B*H*N*kv_len*itemsize", "B=1, H=1, itemsize=4", "N", "256", "8*N^2"),
        ("8*seq_len*seq_len", "", "N", "256", "8*N^2"),
        ("8*N*M", "", "N,M", "(256, 256)", "2048*N"),
        ("8*N*M", "M=256", "N", "256", "2048*N"),
        ("8*256*N", "", "N", "256", "2048*N"),
    ],
    ids=["default", "its other name", "other name", "an argument", "given", "a number"],
)
def test_what_the_budget_grows_as(suite, limit, symbols, names, sizes, told):
    suite.tests(
        SUITE.format(limit=limit, symbols=symbols, names=names, sizes=sizes, arguments=names)
    )
    lines = suite.run("--attnmem-backend=cpu").result.outlines
    assert f"  grows     as 12*N^2; the budget as {told}" in lines


def test_a_length_that_qkv_was_not_given_is_the_other(suite):
    suite.tests("""
@pytest.mark.memory_budget("B*H*N*M*itemsize")
@pytest.mark.parametrize("N", [256])
def test_it(qkv, N):
    q, k, v = qkv(1, 1, N, 16)
    kept = [q @ k.mT for _ in range(2)]
""")
    lines = suite.run("--attnmem-backend=cpu").result.outlines
    assert "  grows     as 8*N^2; the budget as 4*N^2" in lines
