"""The bytes over a formula, judged by a contract: right for every polynomial, or no verdict."""

import math
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.budgets.growth_contract import parse_contract
from pytest_attnmem.budgets.growth_fit import FACTORS, Growth, WorldGrowth
from pytest_attnmem.budgets.growth_judgement import Answer
from pytest_attnmem.budgets.growth_over_formula import (
    Allowed,
    around,
    constant,
    judge_difference,
    judge_fixed,
    outgrown,
)
from pytest_attnmem.formulas.polynomial import expand
from pytest_attnmem.measurement.below_peak import Beneath, PartBelowPeak
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.measurement.timeline import Allocation

ALLOWED = Allowed(parse_contract("O(N*d)"), {"N": 64, "d": 16})
UNCLEAR = "over the formula, and sizes cannot tell how much of it grows with N and d"
SIZES = (64, 128, 192, 256, 320, 512, 768)
SCRATCH = PartBelowPeak(
    Held(0, (), "", "scratch inside kernels", ""), tuple(4 * n * n for n in SIZES)
)

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


def test_one_tensor_beneath_a_peak_is_named_alone():
    parts = (part(lambda n: 8 * n * n, 0, 2, "a.py:1"), part(lambda n: 4 * n, 0, 9, "a.py:3"))
    growth = grown(lambda n: 10**12, lambda n: 4 * n * n, beneath=Beneath({"N": SIZES}, parts))
    judged = growth.judge(parse_contract("O(N)"))
    assert (judged.answer, judged.reason) == (
        Answer.BROKEN,
        "mul at a.py:1, beneath the peak, over the formula grows as 4*N^2",
    )


@pytest.mark.parametrize(
    ("tensors", "formula", "wanted"),
    [
        (16, 8, Answer.BROKEN),  # whenever the scratch is
        (8, 8, Answer.UNKNOWN),  # broken if the scratch is there together with the tensor
        (8, 12, Answer.KEPT),
    ],
)
def test_scratch_of_kernels_counts_as_if_it_were_there_at_the_peak(tensors, formula, wanted):
    parts = (part(lambda n: tensors * n * n, 0, 2, "a.py:1"), SCRATCH)
    growth = grown(
        lambda n: 10**12, lambda n: formula * n * n, beneath=Beneath({"N": SIZES}, parts)
    )
    assert answer(growth) is wanted


def bent(n):
    """Grows as N^2 but at every second size, so that no form shows."""
    return n * n if n % 128 else 128 * n


def test_scratch_does_not_change_that_all_tensors_together_break_a_contract():
    parts = (
        part(bent, 0, 2, "a.py:1"),
        part(lambda n: 16 * n * n - bent(n), 0, 2, "a.py:2"),
        SCRATCH,
    )
    growth = grown(lambda n: 10**12, lambda n: 8 * n * n, beneath=Beneath({"N": SIZES}, parts))
    assert growth.judge(parse_contract("O(N)")).reason == (
        "mul at a.py:1 with 2 more, beneath the peak, over the formula grows as 8*N^2"
    )


def test_tensors_whose_growth_is_known_prove_it_beside_one_whose_is_not():
    parts = (
        part(bent, 0, 2, "a.py:1"),
        part(lambda n: 6 * n * n, 0, 2, "a.py:2"),
        part(lambda n: 6 * n * n, 0, 2, "a.py:3"),
    )
    growth = grown(lambda n: 10**12, lambda n: 8 * n * n, beneath=Beneath({"N": SIZES}, parts))
    judged = growth.judge(parse_contract("O(N)"))
    assert (judged.answer, judged.held) == (Answer.BROKEN, parts[1].held)
    assert judged.reason == (
        "mul at a.py:2 with 1 more, beneath the peak, over the formula grows as 4*N^2"
    )


def test_a_byte_beneath_a_peak_counts_too():
    worlds = tuple(8 * factor for factor in FACTORS)

    def always(nbytes, where):
        spans = ((Allocation(Held(nbytes, (nbytes,), "", "mul", where), 0, 1),),) * len(worlds)
        return PartBelowPeak(spans[0][0].held, (nbytes,) * len(worlds), (), spans)

    below = Beneath({"W": worlds}, (always(5, "a.py:1"), always(1, "a.py:2")))
    for formula, wanted in ((5, Answer.BROKEN), (6, Answer.KEPT)):
        growth = WorldGrowth(
            {"W": worlds},
            {(w,): 6 + w**3 for w in worlds},  # no a/W + b + c*W
            "peak",
            {(w,): formula for w in worlds},
            beneath=below,
        )
        assert answer(growth, "O(1/W)") is wanted


@pytest.mark.parametrize(
    ("text", "contract", "varied", "wanted"),
    [
        ("4*N - N^2", "O(N)", "N", Answer.KEPT),
        ("N^2/2", "O(N)", "N", Answer.BROKEN),
        ("N^2 - N", "O(N)", "N", Answer.BROKEN),
        ("N^2 - N^3", "O(N)", "N", Answer.KEPT),
        ("N^2 - N^3 + N^4", "O(N)", "N", Answer.BROKEN),
        ("4*N - 32*ceil(N/32)", "O(1)", "N", Answer.UNKNOWN),
        ("4*N - 32*ceil(N/32) - N^2", "O(1)", "N", Answer.KEPT),
        ("N^2*d - d", "O(N*d)", "Nd", Answer.BROKEN),
        ("N^2*d - N*d^2", "O(N*d)", "Nd", Answer.UNKNOWN),  # whichever of N and d is larger
        ("N^2 - N^3*d", "O(N)", "Nd", Answer.UNKNOWN),  # d may be small
    ],
)
def test_a_term_breaks_a_contract_unless_a_negative_one_may_outgrow_it(
    text, contract, varied, wanted
):
    assert outgrown(expand(text), parse_contract(contract), varied) is wanted


@pytest.mark.parametrize(
    ("contract", "value", "wanted"),
    [
        ("O(N)", lambda n: n**2 - n**3, Answer.KEPT),
        # Smaller sizes are of another phase.
        ("O(N)", lambda n: n**2 - n**3 if n > 2 else 500, Answer.KEPT),
        ("O(N)", lambda n: n**3 - n**2 if n > 2 else 500, Answer.BROKEN),
        ("O(N)", lambda n: 2**n, Answer.BROKEN),  # without a fit
    ],
)
def test_bytes_below_0_are_judged_by_their_form(contract, value, wanted):
    sizes = tuple(range(1, 9))
    values = {(n,): value(n) for n in sizes}
    judged = judge_difference({"N": sizes}, values, parse_contract(contract), "it")
    assert judged.answer is wanted


@pytest.mark.parametrize(
    ("value", "wanted", "reason"),
    [
        (lambda n, d: n * n * d - d, Answer.BROKEN, "it grows as N^2*d - d"),
        (
            lambda n, d: n * n * d - n * d * d,
            Answer.UNKNOWN,
            "sizes cannot tell how it grows with N and d together",
        ),
    ],
)
def test_bytes_below_0_of_two_symbols_are_judged_by_their_form(value, wanted, reason):
    sizes = {"N": (1, 2, 3, 4, 5), "d": (1, 2, 3, 4, 5)}
    values = {at: value(*at) for at in product(*sizes.values())}
    judged = judge_difference(sizes, values, parse_contract("O(N*d)"), "it")
    assert (judged.answer, judged.reason) == (wanted, reason)


@pytest.mark.parametrize(
    ("values", "own", "sizes", "form"),
    [
        ((2, 4, 6, 8, 10, 12), 3, (1, 2, 3, 4, 5, 6), "2*N"),
        ((2, 4, 6, 8, 10, 900), 3, (1, 2, 3, 4, 5), "2*N"),
        ((900, 4, 6, 8, 10, 12), 2, (2, 3, 4, 5, 6), "2*N"),
        ((900, 4, 6, 8, 10, 12), 1, None, None),
    ],
)
def test_the_form_around_the_own_size_has_its_sizes(values, own, sizes, form):
    found = around("N", (1, 2, 3, 4, 5, 6), values, own)
    assert found == (None if sizes is None else (sizes, expand(form)))


def test_a_form_has_the_bytes_that_no_symbol_changes():
    assert constant(expand("4*N")) == 0
    assert constant(expand("4*N + 1/2")) == 1


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
        (None, 1, Answer.UNKNOWN, f"peak is 1 B {UNCLEAR}"),
        (0, 2048, Answer.KEPT, "peak is 2.0 KiB over the formula"),
        (1024, 2048, Answer.KEPT, "peak is 2.0 KiB over the formula"),
        (
            1025,
            2048,
            Answer.BROKEN,
            "peak is 2.0 KiB over the formula, of which 1.0 KiB do not grow with N and d",
        ),
        (None, 2048, Answer.UNKNOWN, f"peak is 2.0 KiB {UNCLEAR}"),
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
