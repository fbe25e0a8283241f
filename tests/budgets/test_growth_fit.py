"""Growth: measured points, judged by a contract."""

import math
from dataclasses import replace
from functools import partial
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.budgets.growth_contract import parse_contract
from pytest_attnmem.budgets.growth_fit import Growth
from pytest_attnmem.budgets.growth_judgement import Answer
from pytest_attnmem.budgets.growth_points import grid, grow
from pytest_attnmem.errors import BudgetError, BudgetExceeded
from pytest_attnmem.measurement.below_peak import Beneath, PartBelowPeak
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.units import shown

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


BUMPY = grown(lambda N: 4 * N + (N * 37 % 1000))
POINTS = "1.5 KiB at 256, 2.9 KiB at 512, 3.4 KiB at 768, 4.9 KiB at 1024, 8.8 KiB at 2048"


@pytest.mark.parametrize(
    ("growth", "contract", "why"),
    [
        (BUMPY, "O(N)", f"sizes cannot tell how peak grows with N: {POINTS}"),
        # A phase that takes over breaks nothing.
        (grown(lambda N: max(2560, 4 * N - 1000), N=(256, 512, 1024, 2048)), "O(N)",
         "sizes cannot tell how peak grows with N: 2.5 KiB at 256, 2.5 KiB at 512, 3.0 KiB at 1024,"
         " 7.0 KiB at 2048"),
        (grown(lambda N: N**3, N=(256, 512, 768, 1024)), "O(N^3)",
         "4 sizes of N cannot tell; give 7"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_says_what_to_vary(growth, contract, why):
    with pytest.raises(BudgetError) as error:
        growth.assert_within(contract)
    assert str(error.value) == f"{why}; the contract is {contract}"


@pytest.mark.parametrize("ask", [lambda: BUMPY.formula, lambda: BUMPY.degree("N")])
def test_what_has_no_polynomial_is_told_with_every_point(ask):
    with pytest.raises(BudgetError) as error:
        ask()
    assert str(error.value) == (
        f"no polynomial goes through peak at N=256/512/768/1024/2048: {POINTS}"
    )


@pytest.mark.parametrize(
    ("peak", "sizes", "needed"),
    [
        (lambda N: 2 * N * N + 56 * N, (1, 2, 4, 8), 5),
        (lambda N: max(5 * N, N * N), (1, 2, 4, 8), 5),
        (lambda N: N**3, (1, 2, 4, 8, 16), 6),
    ],
)
def test_a_fit_without_sizes_to_confirm_it_asks_for_more(peak, sizes, needed):
    growth = grown(peak, N=sizes)
    with pytest.raises(BudgetError) as error:
        growth.degree("N")
    assert str(error.value).startswith(
        f"{len(sizes)} sizes of N cannot tell how peak grows with N; give {needed}: "
    )
    assert str(error.value).endswith(f"at {sizes[-1]}")


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


def test_a_symbol_that_was_not_varied_has_no_degree():
    with pytest.raises(BudgetError) as error:
        grown(lambda N: N).degree("d")
    assert str(error.value) == "d was not varied, only N"


TWO = "two determine a line, and 2 confirm it"


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({}, "growth needs sizes to vary: growth(fn, N=[256, 512, 1024, 2048])"),
        ({"N": [1, 2, 2.5, 4]}, "growth needs N to be a whole number >= 1, got 2.5"),
        ({"N": [1, 2, 0, 4]}, "growth needs N to be a whole number >= 1, got 0"),
        ({"N": [8, 16, 8, 32]}, f"growth needs 4 sizes of N or more, got 3: {TWO}"),
        ({"N": 8}, f"growth needs 4 sizes of N or more, got 1: {TWO}"),
    ],
)
def test_sizes_that_say_nothing_are_refused(sizes, message):
    with pytest.raises(BudgetError) as error:
        grid(sizes)
    assert str(error.value) == message
    assert grid({"N": [4, 2, 8, 16, 2]}) == {"N": (2, 4, 8, 16)}


def test_padding_has_a_formula_along_one_symbol():
    def padded(N):
        return 4 * N + 64 * math.ceil(N / 32)

    assert str(grown(padded, N=ODD).formula) == "4*N + 64*ceil(N/32)"
    both = grown(lambda N, d: padded(N) * d, N=ODD, d=(1, 2, 3, 4))
    assert both.polynomial is None


def test_of_several_symbols_the_corners_are_listed():
    growth = grown(lambda N, d: N**3 + d, N=(1, 2, 3, 4), d=(1, 2, 3))
    assert growth.polynomial is None
    assert str(growth).splitlines() == [
        "  N=1 d=1   2 B",
        "  N=1 d=3   4 B",
        "  N=4 d=1   65 B",
        "  N=4 d=3   67 B",
        "  and at 8 sizes between",
    ]


def with_beneath(peak, *values):
    """Returns a growth over ROUND whose parts beneath the peak have these values."""
    parts = tuple(
        PartBelowPeak(Held(9, (9,), "float32", "mul", "a.py:1"), tuple(map(value, ROUND)))
        for value in values
    )
    return replace(grown(peak), beneath=Beneath({"N": ROUND}, parts))


def test_a_tensor_beneath_the_peak_counts_unless_the_peak_breaks_the_contract():
    contract = parse_contract("O(N)")

    def judged(*growth):
        return with_beneath(*growth).judge(contract)

    found = judged(lambda N: 8 * N * N, lambda N: 4 * N)
    assert (found.answer, found.reason) == (Answer.BROKEN, "peak grows as 8*N^2")
    found = judged(lambda N: 8 * N, lambda N: 4 * N)
    assert (found.answer, found.reason, found.held) == (Answer.KEPT, "peak grows as 8*N", None)
    found = judged(lambda N: 8 * N, lambda N: 4 * N * N)
    reason = "mul at a.py:1, beneath the peak, grows as 4*N^2"
    assert (found.answer, found.reason) == (Answer.BROKEN, reason)
    # The parts may show what the peak does not.
    found = judged(lambda N: 4 * N + (N * 37 % 1000), lambda N: 4 * N * N)
    assert (found.answer, found.reason) == (Answer.BROKEN, "mul at a.py:1 grows as 4*N^2")
    found = judged(lambda N: 4 * N + (N * 37 % 1000), lambda N: 4 * N)
    assert found.answer is Answer.KEPT
    assert found.reason.startswith("sizes cannot tell how peak grows with N: ")


def test_a_branch_is_unclear_unless_a_tensor_beneath_the_peak_breaks_the_contract():
    sizes = (64, 128, 192, 256, 512, 1024, 2048)
    dense = grown(lambda N: N * N if N % 128 else 128 * N, N=sizes)
    assert answer(dense, "O(N)") is Answer.UNKNOWN
    for beneath, wanted in ((lambda N: N, Answer.UNKNOWN), (lambda N: N * N, Answer.BROKEN)):
        part = PartBelowPeak(Held(9, (9,), "float32", "mul", "a.py:1"), tuple(map(beneath, sizes)))
        assert answer(replace(dense, beneath=Beneath({"N": sizes}, (part,))), "O(N)") is wanted


NOT_ON_N = "the peak does not depend on N from 256 to 2048"
BENEATH = "beneath it mul at a.py:1 grows as 4*N"


@pytest.mark.parametrize(
    ("growth", "contract", "note"),
    [
        (grown(lambda N: 8), "O(N)", NOT_ON_N),
        (grown(lambda N: 8 if N > 256 else 9), "O(N)", NOT_ON_N.replace("256", "512")),
        (grown(lambda N: 8), "O(d)", ""),
        (grown(lambda N: 8 * N), "O(N)", ""),
        (grown(lambda N: 8 if N < 800 else 9), "O(N)", ""),
        (grown(lambda N, d: 8, N=ROUND, d=(1, 2, 3)), "O(N*d)", ""),
        (with_beneath(lambda N: 8, lambda N: 4 * N), "O(N)", f"{NOT_ON_N}; {BENEATH}"),
        (with_beneath(lambda N: 8, lambda N: 4), "O(N)", NOT_ON_N),
        (replace(grown(lambda N: 8 * N), first_run="it was more"), "O(N)", "it was more"),
    ],
)
def test_a_peak_that_does_not_depend_on_its_symbol_is_noted(growth, contract, note):
    assert growth.judge(parse_contract(contract)).note == note


@pytest.mark.parametrize("known", [False, True])
def test_what_is_beneath_a_peak_is_traced_once_if_it_is_not_known(seen, known):
    asked = []

    def trace(N):
        asked.append(N)
        return seen  # it has no timeline

    growth = with_beneath(lambda N: 8 * N) if known else grown(lambda N: 8 * N)
    growth = replace(growth, traces={(n,): partial(trace, n) for n in ROUND})
    growth.assert_within("O(N)")
    assert asked == ([] if known else [*ROUND])
    # A function that does not run again is judged by its peaks.
    replace(growth, traces={(n,): lambda: 1 / 0 for n in ROUND}).assert_within("O(N)")


def test_a_function_runs_at_each_point_and_twice_at_the_first(seen):
    ran, cached = [], []

    def fn(N, d):
        ran.append((N, d))
        return N * d

    def measure(call):
        return replace(seen, peak_bytes=call() + (0 if cached else 100))

    cached.append(True)
    sizes = {"N": (4, 8, 16, 12), "d": (1, 2, 3, 4)}
    growth = grow(measure, fn, sizes, "peak")
    points = [*product((4, 8, 12, 16), (1, 2, 3, 4))]
    assert ran == [points[0], *points]
    assert growth == Growth(
        {"N": (4, 8, 12, 16), "d": (1, 2, 3, 4)}, {at: at[0] * at[1] for at in points}
    )
    assert growth.largest == replace(seen, peak_bytes=64)
    assert growth.traces == {}
    traced = grow(measure, fn, sizes, "peak", trace=lambda call: call())
    assert {at: trace() for at, trace in traced.traces.items()} == growth.peaks


@pytest.mark.parametrize(
    ("first", "text"),
    [
        (14, "peak at N=4 was 10 B more in the first run than in the second"),
        (1, "peak at N=4 was 3 B less in the first run than in the second"),
        (4, ""),
    ],
)
def test_a_first_run_of_other_bytes_is_told(seen, first, text):
    found = [first]

    def measure(call):
        nbytes = call()
        return replace(seen, peak_bytes=found.pop() if found else nbytes)

    growth = grow(measure, lambda N: N, {"N": (4, 8, 12, 16)}, "peak")
    counts = ", which counts: gradients or a cache, most likely"
    assert growth.first_run == (text + counts if text else "")
    assert growth.peaks == {(n,): n for n in (4, 8, 12, 16)}


def test_what_a_function_raises_is_told_with_its_sizes(seen):
    def fails(N):
        raise ValueError("no " * 200)

    with pytest.raises(BudgetError) as error:
        grow(lambda call: call(), fails, {"N": (4, 8, 12, 16)}, "peak")
    told = shown(ValueError("no " * 200), 160)
    assert str(error.value) == (
        f"growth: the function raised {told} at N=4; vary over sizes that it takes"
    )
    with pytest.raises(BudgetError) as error:
        grow(lambda call: seen, lambda N: N, {"N": (4, 8, 12, 16)}, "reserved")
    assert str(error.value) == "growth: at N=4 reserved is not measured on cpu"


def test_several_symbols_without_a_fit_are_told_in_one_line():
    sizes = {"N": (1, 2, 4, 8, 9), "d": (1, 2, 4, 8)}
    growth = Growth(sizes, {(n, d): 2**n + d for n in sizes["N"] for d in sizes["d"]})
    with pytest.raises(BudgetError) as refused:
        growth.degree("d")
    assert str(refused.value).startswith(
        "no polynomial goes through peak at N=1/2/4/8/9, d=1/2/4/8: 3 B at 1 1, 4 B at 1 2, "
    )
    assert str(growth).splitlines()[0] == "  N=1 d=1   3 B"


@pytest.mark.parametrize(
    ("peak", "text"), [(lambda N: 8 * N, "8*N"), (math.isqrt, "no polynomial")]
)
def test_a_growth_is_shown_by_its_polynomial(peak, text):
    growth = grown(peak)
    assert repr(growth) == f"<Growth: {text}, of N=256,512,768,1024,2048>"
    assert growth.over((256,)) == peak(256)  # there is no formula


def test_the_bytes_over_a_formula_are_told_at_each_size():
    peaks, formula = {(1,): 12, (2,): 20, (3,): 31}, {(1,): 12, (2,): 21, (3,): 30}
    growth = Growth({"N": (1, 2, 3)}, peaks, formula_bytes=formula)
    assert [growth.over(at) for at in peaks] == [0, -1, 1]
    assert str(growth).splitlines() == [
        "  N=1   12 B   within the formula",
        "  N=2   20 B   within the formula",
        "  N=3   31 B   1 B over the formula",
    ]
