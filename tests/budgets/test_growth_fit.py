"""Growth: measured points, judged by a contract."""

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.budgets.growth_contract import parse_contract
from pytest_attnmem.budgets.growth_fit import Growth
from pytest_attnmem.budgets.growth_judgement import Answer
from pytest_attnmem.budgets.growth_points import grid
from pytest_attnmem.errors import BudgetError, BudgetExceeded

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
        (lambda N: N * math.isqrt(N), "O(N)", Answer.UNKNOWN),
        (lambda N: N * math.ceil(math.log2(N)), "O(N)", Answer.UNKNOWN),
        (lambda N: 4 * N + 4096 * math.isqrt(N), "O(N)", Answer.KEPT),  # bends the other way
        (lambda N: 4 * N + (N * 37 % 1000), "O(N)", Answer.UNKNOWN),
        (lambda N: max(8 * N, 3000), "O(N)", Answer.KEPT),  # the four largest sizes show a line
        (lambda N: max(8 * N, 6000), "O(N)", Answer.UNKNOWN),  # three sizes show nothing
        (lambda N: 4096, "O(1)", Answer.KEPT),
        (lambda N: 4096 + 4 * N, "O(1)", Answer.BROKEN),
    ],
)
def test_a_contract_is_kept_or_broken_or_nobody_can_tell(peak, contract, wanted):
    assert answer(grown(peak), contract) is wanted


@settings(deadline=None)
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
        "sizes cannot tell how peak grows with N: 1.5 KiB at 256, 2.9 KiB at 512, 3.4 KiB at 768,"
        " 4.9 KiB at 1024, 8.8 KiB at 2048; the contract is O(N)"
    )
    for ask in (lambda: growth.formula, lambda: growth.degree("N")):
        with pytest.raises(BudgetError) as error:
            ask()
        assert str(error.value) == (
            "no polynomial goes through peak at N=256/512/768/1024/2048: 1.5 KiB at 256, 2.9 KiB"
            " at 512, 3.4 KiB at 768, 4.9 KiB at 1024, 8.8 KiB at 2048"
        )


def test_a_phase_that_takes_over_breaks_nothing():
    growth = grown(lambda N: max(2560, 4 * N - 1000), N=(256, 512, 1024, 2048))
    with pytest.raises(BudgetError) as error:
        growth.assert_within("O(N)")
    assert str(error.value) == (
        "sizes cannot tell how peak grows with N: 2.5 KiB at 256, 2.5 KiB at 512, 3.0 KiB at 1024,"
        " 7.0 KiB at 2048; the contract is O(N)"
    )


def test_sizes_of_another_phase_are_named():
    growth = grown(
        lambda N: max(8192 + 8 * N, 2 * N * N), N=(16, 32, 48, 64, 96, 128, 160, 192, 256)
    )
    with pytest.raises(BudgetExceeded) as error:
        growth.assert_within("O(N)")
    assert str(error.value).splitlines()[:6] == [
        "peak grows as 2*N^2 where N >= 96; the contract is O(N)",
        "  N=16   8.1 KiB   (another phase)",
        "  N=32   8.3 KiB   (another phase)",
        "  N=48   8.4 KiB   (another phase)",
        "  N=64   8.5 KiB   (another phase)",
        "  N=96   18.0 KiB",
    ]
    with pytest.raises(BudgetError) as refused:
        growth.degree("N")
    assert str(refused.value).startswith(
        "no polynomial goes through peak at N=16/32/48/64/96/128/160/192/256; where N >= 96, it is"
        " 2*N^2: 8.1 KiB at 16, 8.3 KiB at 32, "
    )


def test_sizes_that_are_too_few_for_a_power_cannot_tell():
    growth = grown(lambda N: N**3, N=(256, 512, 768, 1024))
    with pytest.raises(BudgetError) as error:
        growth.assert_within("O(N^3)")
    assert str(error.value) == "4 sizes of N cannot tell; give 7; the contract is O(N^3)"


def test_a_symbol_that_was_not_varied_has_no_degree():
    with pytest.raises(BudgetError) as error:
        grown(lambda N: N).degree("d")
    assert str(error.value) == "d was not varied, only N"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({}, "growth needs sizes to vary: growth(fn, N=[256, 512, 1024, 2048])"),
        ({"N": [1, 2, 2.5, 4]}, "growth needs N to be a whole number >= 1, got 2.5"),
        ({"N": [1, 2, 0, 4]}, "growth needs N to be a whole number >= 1, got 0"),
        (
            {"N": [8, 16, 8, 32]},
            "growth needs 4 sizes of N or more, got 3: two determine a line, and 2 confirm it",
        ),
        (
            {"N": 8},
            "growth needs 4 sizes of N or more, got 1: two determine a line, and 2 confirm it",
        ),
    ],
)
def test_sizes_that_say_nothing_are_refused(sizes, message):
    with pytest.raises(BudgetError) as error:
        grid(sizes)
    assert str(error.value) == message
    assert grid({"N": [4, 2, 8, 16, 2]}) == {"N": (2, 4, 8, 16)}
