"""The bytes over a formula, judged by a contract: right for every polynomial, or no verdict."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.budgets.growth_contract import parse_contract
from pytest_attnmem.budgets.growth_fit import Growth
from pytest_attnmem.budgets.growth_judgement import Answer
from pytest_attnmem.budgets.growth_over_formula import Allowed, judge_fixed
from pytest_attnmem.budgets.world_growth import FACTORS, WorldGrowth
from pytest_attnmem.measurement.below_peak import Beneath, PartBelowPeak
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.timeline import Allocation

ALLOWED = Allowed(parse_contract("O(N*d)"), {"N": 64, "d": 16})
SIZES = (64, 128, 192, 256, 320, 512, 768)

factors = st.lists(st.integers(0, 10**6), max_size=4)


def value(polynomial, size):
    return sum(factor * size**power for power, factor in enumerate(polynomial))


def grown(peak, formula, sizes=SIZES, **known):
    return Growth(
        {"N": sizes},
        {(n,): peak(n) for n in sizes},
        formula_bytes={(n,): formula(n) for n in sizes},
        **known,
    )


def answer(growth, contract="O(N)"):
    return growth.judge(parse_contract(contract)).answer


@settings(deadline=None)
@given(factors, factors, st.sampled_from(["O(1)", "O(N)", "O(N^2)"]))
def test_any_program_over_any_formula_is_judged_by_what_outgrows_both(program, formula, contract):
    growth = grown(lambda n: value(program, n), lambda n: value(formula, n))
    allowed = parse_contract(contract).degree("N")
    padded = [[*one, 0, 0, 0, 0][:4] for one in (program, formula)]
    beyond = [a - b for a, b in zip(*padded, strict=True)][allowed + 1 :]
    leading = next((factor for factor in reversed(beyond) if factor), 0)
    assert answer(growth, contract) is (Answer.BROKEN if leading > 0 else Answer.KEPT)


def test_a_formula_that_keeps_the_contract_changes_no_answer():
    def root(n):
        return math.isqrt(n * 10**6)

    assert answer(grown(lambda n: 4 * n, root)) is Answer.KEPT
    assert answer(grown(lambda n: 4 * n * n, root)) is Answer.BROKEN


def test_each_size_has_its_bytes_over_the_formula():
    growth = grown(lambda n: 8 * n * n + 4 * n, lambda n: 8 * n * n + 512)
    assert [growth.over((n,)) for n in SIZES[:2]] == [-256, 0]
    assert str(growth).splitlines()[:3] == [
        "  N=64   32.3 KiB   within the formula",
        "  N=128   128.5 KiB   within the formula",
        "  N=192   288.8 KiB   256 B over the formula",
    ]
    judged = growth.judge(parse_contract("O(1)"))
    assert judged.reason == "peak over the formula grows as 4*N - 512"


def part(nbytes, start, end, where):
    spans = tuple(
        (Allocation(Held(nbytes(n), (n, n), "", "mul", where), start, end),) for n in SIZES
    )
    held = Held(nbytes(SIZES[-1]), (1,), "float32", "mul", where)
    return PartBelowPeak(held, tuple(map(nbytes, SIZES)), (), spans)


@pytest.mark.parametrize(("second", "wanted"), [((2, 3), Answer.KEPT), ((1, 3), Answer.BROKEN)])
def test_tensors_beneath_a_peak_count_together_if_they_live_together(second, wanted):
    parts = (
        part(lambda n: 8 * n * n, 0, 2, "a.py:1"),
        part(lambda n: 8 * n * n, *second, "a.py:2"),
        part(lambda n: 4 * n, 0, 9, "a.py:3"),
    )
    growth = grown(
        lambda n: 10**12, lambda n: 8 * n * n + 10**12, beneath=Beneath({"N": SIZES}, parts)
    )
    judged = growth.judge(parse_contract("O(N)"))
    assert judged.answer is wanted
    if wanted is Answer.BROKEN:
        assert judged.held == parts[0].held
        assert judged.reason == (
            "mul at a.py:1 with 1 more, beneath the peak, over the formula grows as"
            " 8*N^2 - 1000000000000"
        )


@pytest.mark.parametrize(
    ("program", "formula", "contract", "wanted"),
    [
        ((64, 0, 0), (32, 0, 0), "O(1/W)", Answer.KEPT),
        ((64, 400, 0), (64, 0, 0), "O(1/W)", Answer.BROKEN),
        ((64, 400, 0), (64, 400, 0), "O(1/W)", Answer.KEPT),
        ((64, 400, 0), (64, 399, 0), "O(1/W)", Answer.BROKEN),
        ((64, 0, 4), (64, 400, 4), "O(1/W)", Answer.KEPT),
        ((64, 0, 4), (64, 400, 3), "O(1/W)", Answer.BROKEN),
        ((64, 400, 3), (64, 0, 4), "O(1/W)", Answer.KEPT),
    ],
)
def test_worlds_are_judged_over_a_formula_too(program, formula, contract, wanted):
    worlds = tuple(8 * factor for factor in FACTORS)

    def over(parts):
        return {(w,): parts[0] * 1024 // w + parts[1] + parts[2] * w for w in worlds}

    growth = WorldGrowth({"W": worlds}, over(program), "peak", over(formula))
    assert answer(growth, contract) is wanted


@pytest.mark.parametrize(
    ("nbytes", "over", "wanted", "text"),
    [
        (0, 0, Answer.KEPT, "peak is within the formula"),
        (None, -5, Answer.KEPT, "peak is within the formula"),
        (0, 2048, Answer.KEPT, "peak is 2.0 KiB over the formula"),
        (1024, 2048, Answer.KEPT, "peak is 2.0 KiB over the formula"),
        (
            1025,
            2048,
            Answer.BROKEN,
            "peak is 2.0 KiB over the formula, of which 1.0 KiB do not grow with N and d",
        ),
        (
            None,
            2048,
            Answer.UNKNOWN,
            "peak is 2.0 KiB over the formula, and sizes cannot tell how much of it grows with N"
            " and d",
        ),
    ],
)
def test_bytes_that_do_not_grow_belong_in_the_formula(nbytes, over, wanted, text):
    judged = judge_fixed(nbytes, over, "peak", ["N", "d"], ALLOWED)
    assert (judged.answer, judged.reason or judged.note) == (wanted, text)
    assert judged.hint == (
        ""
        if wanted is not Answer.BROKEN
        else "add bytes that do not grow to the formula, or allow any number of them: O(N*d + 1)"
    )
