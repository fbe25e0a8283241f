"""Patterns of blocks, worked out by hand."""

from __future__ import annotations

import re

import pytest

from pytest_attnmem.kernels.block_sparse import local, random, strided


def test_patterns_by_hand():
    assert local(3, 4, 2).rows == ((0, 1), (0, 1, 2), (1, 2, 3))
    assert local(4, 2, 1).rows == ((0,), (1,), (), ())
    assert strided(3, 5, 2).rows == ((0, 2, 4), (1, 3), (0, 2, 4))
    assert (local(3, 3, 1) | strided(3, 3, 2)).rows == ((0, 2), (1,), (0, 2))
    assert local(3, 3, 3).causal().rows == ((0,), (0, 1), (0, 1, 2))
    assert local(3, 3, 3).active == 9


def test_random_blocks():
    mask = random(20, 30, 4, seed=1)
    assert [len(row) for row in mask.rows] == [4] * 20
    assert all(sorted({*row}) == list(row) and row[-1] < 30 for row in mask.rows)
    assert mask == random(20, 30, 4, seed=1) != random(20, 30, 4, seed=2)
    lower = random(20, 10, 4, causal=True)
    assert [len(row) for row in lower.rows] == [1, 2, 3, *[4] * 17]
    assert lower.causal() == lower


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: local(3, 3, 0), "window must be at least 1, got 0"),
        (lambda: strided(3, 3, -1), "stride must be at least 1, got -1"),
        (lambda: random(3, 3, 0), "count must be at least 1, got 0"),
        (
            lambda: local(3, 3, 1) | local(3, 4, 1),
            "block masks must have one shape, got [3, 3] and [3, 4]",
        ),
    ],
)
def test_patterns_that_cannot_be(call, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        call()
