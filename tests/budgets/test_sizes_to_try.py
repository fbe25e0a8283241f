"""The sizes at which a test runs again."""

from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.budgets.sizes_to_try import closer, elsewhere, larger, others, smaller
from pytest_attnmem.errors import BudgetError


@given(st.integers(6, 10**6))
def test_smaller_sizes_are_smaller_distinct_and_kind_to_blocks(size):
    chosen = smaller(size)
    assert len(chosen) == 4
    assert list(chosen) == sorted({*chosen})
    assert chosen[0] >= 1
    assert chosen[-1] < size
    if size >= 1024:
        assert all(value % 128 == 0 for value in chosen)


def test_a_size_that_is_too_small_to_vary_is_refused():
    with pytest.raises(BudgetError) as error:
        smaller(4)
    assert str(error.value) == "size 4 is too small to vary: 4 smaller ones are needed"


@pytest.mark.parametrize(
    ("sizes", "tried"),
    [
        (smaller(2048), [256, 512, 768, 1024]),
        (smaller(100), [16, 32, 48, 64]),
        (smaller(64), [8, 16, 24, 32]),
        (others(2048), [256, 512, 768, 1024]),
        # A body that takes few sizes may take closer ones, multiples or 1.
        (others(64), [8, 16, 24, 32, 48, 52, 56, 60, 63, 128, 192, 65, 256, 320, 1]),
        (others(8), [2, 3, 4, 16, 24, 32]),  # never 1, and multiples where few may divide
        (others(4), [2, 8, 12, 16]),
        (others(1), [2, 3, 4, 5]),
        # Sizes that must not matter keep what divides.
        (elsewhere(512), [256, 128, 64, 511]),
        (elsewhere(12), [6, 4, 3, 2, 24, 36]),
        (elsewhere(7), [14, 21, 3, 6]),
        (elsewhere(1), [2, 3, 4, 5]),
    ],
    ids=lambda value: str(value) if isinstance(value, list) else "",
)
def test_the_first_sizes_that_are_tried(sizes, tried):
    assert list(islice(sizes, len(tried))) == tried


def test_closer_sizes_are_below_and_multiples_of_a_block():
    assert closer(4096) == (3072, 3328, 3584, 3840)
    assert closer(256) == (128, 160, 192, 224)
    assert closer(100) == (72, 80, 84, 92)


def test_larger_sizes_leave_out_what_loops_would_make_too_many_of():
    assert larger(512, 100, loops=False) == (1024, 4096, 32768, 2048, 8192, 16384)
    assert larger(512, 100, loops=True) == (1024, 4096, 2048)
    assert larger(512, 30_000, loops=False) == ()
