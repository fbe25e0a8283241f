"""Growth: what measured points say of a contract."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.contract import parse_contract
from pytest_attnmem.errors import BudgetError, BudgetExceeded
from pytest_attnmem.growth import Answer, Growth, grid, smaller

ROUND = (256, 512, 768, 1024, 2048)
ODD = (130, 257, 391, 500, 645, 777, 1000)


def grown(peak, **sizes):
    sizes = sizes or {"N": ROUND}
    return Growth(sizes, {at: peak(*at) for at in product(*sizes.values())})


def answer(growth, contract):
    return growth.judge(parse_contract(contract)).answer


@pytest.mark.parametrize(
    ("peak", "contract", "wanted"),
    [
        (lambda N: 8 * N * N + 256 * N, "O(N)", Answer.BROKEN),
        (lambda N: 8 * N * N + 256 * N, "O(N^2)", Answer.KEPT),
        (lambda N: 256 * N + 8, "O(N)", Answer.KEPT),
        (lambda N: 10**12 + 256 * N + N * N // 256, "O(N)", Answer.BROKEN),  # however small
        (lambda N: 4096, "O(N)", Answer.KEPT),
        (lambda N: N * math.isqrt(N), "O(N)", Answer.BROKEN),
        (lambda N: N * math.ceil(math.log2(N)), "O(N)", Answer.UNKNOWN),
        (lambda N: 4 * N + 4096 * math.isqrt(N), "O(N)", Answer.KEPT),  # bends the other way
        (lambda N: 4 * N + (N * 37 % 1000), "O(N)", Answer.UNKNOWN),
        (lambda N: max(8 * N, 6000), "O(N)", Answer.UNKNOWN),
    ],
)
def test_a_contract_is_kept_or_broken_or_nobody_can_tell(peak, contract, wanted):
    assert answer(grown(peak), contract) is wanted


@given(st.integers(1, 10**4), st.integers(0, 10**9), st.sampled_from([8, 16, 32, 64, 128]))
def test_padding_neither_fails_an_honest_kernel_nor_hides_a_quadratic_one(slope, constant, block):
    def honest(N):
        return constant + slope * N + 4 * block * math.ceil(N / block)

    assert answer(grown(honest, N=ODD), "O(N)") is Answer.KEPT
    assert answer(grown(lambda N: honest(N) + N * N, N=ODD), "O(N)") is Answer.BROKEN


def test_several_symbols_are_judged_at_once():
    growth = grown(lambda N, d: 8 * N * d + 4 * N, N=ROUND, d=(16, 32, 48, 64))
    assert str(growth.formula) == "8*N*d + 4*N"
    assert (growth.degree("N"), growth.degree("d")) == (1, 1)
    assert answer(growth, "O(N*d)") is Answer.KEPT
    assert answer(growth, "O(N + d)") is Answer.BROKEN
    growth = grown(lambda N, d: N * d * d, N=ROUND, d=(16, 32, 48, 64, 80))
    assert answer(growth, "O(N*d)") is Answer.BROKEN


def test_what_breaks_a_contract_is_named_with_every_point():
    growth = grown(lambda N: 8 * N * N + 256 * N)
    growth.assert_within("O(N^2)")
    with pytest.raises(BudgetExceeded) as error:
        growth.assert_within("O(N*d)")
    assert str(error.value).splitlines() == [
        "peak grows as 8*N^2 + 256*N; the contract is O(N*d)",
        "  N=256   576.0 KiB",
        "  N=512   2.1 MiB",
        "  N=768   4.7 MiB",
        "  N=1024   8.3 MiB",
        "  N=2048   32.5 MiB",
    ]


def test_what_cannot_be_told_says_what_to_vary():
    growth = grown(lambda N: 4 * N + (N * 37 % 1000))
    with pytest.raises(BudgetError) as error:
        growth.assert_within("O(N)")
    assert str(error.value) == (
        "no polynomial goes through peak at N=256/512/768/1024/2048: blocks or padding, most"
        " likely; vary N over larger sizes, and multiples of 128; the contract is O(N)"
    )
    for ask in (lambda: growth.formula, lambda: growth.degree("N")):
        with pytest.raises(BudgetError) as error:
            ask()
        assert str(error.value) == "no polynomial goes through peak at N=256/512/768/1024/2048"


def test_sizes_that_are_too_few_for_a_power_cannot_tell():
    growth = grown(lambda N: N**3, N=(256, 512, 768, 1024))
    with pytest.raises(BudgetError) as error:
        growth.assert_within("O(N^3)")
    assert str(error.value) == "4 sizes of N cannot tell; give 7; the contract is O(N^3)"


def test_a_symbol_that_was_not_varied_has_no_degree():
    with pytest.raises(BudgetError) as error:
        grown(lambda N: N).degree("d")
    assert str(error.value) == "d was not varied, only N"


@given(st.integers(6, 10**6))
def test_smaller_sizes_are_smaller_distinct_and_kind_to_blocks(size):
    chosen = smaller(size)
    assert len(chosen) == 4
    assert list(chosen) == sorted({*chosen})
    assert chosen[0] >= 1
    assert chosen[-1] < size
    if size >= 1024:
        assert all(value % 128 == 0 for value in chosen)


@pytest.mark.parametrize(
    ("size", "chosen"),
    [(2048, (256, 512, 768, 1024)), (100, (16, 32, 48, 64)), (64, (8, 16, 24, 32))],
)
def test_smaller_sizes(size, chosen):
    assert smaller(size) == chosen


def test_a_size_that_is_too_small_to_vary_is_refused():
    with pytest.raises(BudgetError) as error:
        smaller(4)
    assert str(error.value) == "size 4 is too small to vary: 4 smaller ones are needed"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({}, "growth needs sizes to vary: growth(fn, N=[256, 512, 1024, 2048])"),
        ({"N": [1, 2, 2.5, 4]}, "growth needs whole numbers >= 1 for N, got 2.5"),
        ({"N": [1, 2, 0, 4]}, "growth needs whole numbers >= 1 for N, got 0"),
        (
            {"N": [8, 16, 8, 32]},
            "growth needs 4 sizes of N or more, got 3: two tell a line, and 2 confirm it",
        ),
        (
            {"N": 8},
            "growth needs 4 sizes of N or more, got 1: two tell a line, and 2 confirm it",
        ),
    ],
)
def test_sizes_that_say_nothing_are_refused(sizes, message):
    with pytest.raises(BudgetError) as error:
        grid(sizes)
    assert str(error.value) == message
    assert grid({"N": [4, 2, 8, 16, 2]}) == {"N": (2, 4, 8, 16)}
