"""Judgements of measured bytes, and of the tensors beneath a peak, by a growth contract."""

from itertools import product

import pytest

from pytest_attnmem.budgets.growth_contract import parse_contract
from pytest_attnmem.budgets.growth_judgement import (
    Answer,
    judge_beneath,
    judge_branches,
    judge_fit,
    judge_grid,
    judge_line,
    largest_part,
)
from pytest_attnmem.formulas.polynomial import expand
from pytest_attnmem.measurement.below_peak import Beneath, PartBelowPeak
from pytest_attnmem.measurement.held import Held

BROKEN, UNKNOWN, KEPT = Answer.BROKEN, Answer.UNKNOWN, Answer.KEPT
FOUR, FIVE, SEVEN = range(1, 5), range(1, 6), range(10, 80, 10)


def held(nbytes=400, shape=(10, 10), dtype="float32", op="mul", where="a.py:1"):
    return Held(nbytes, shape, dtype, op, where)


def part(values, largest=(), **of):
    last = largest[-1] if largest else held(**of)
    return PartBelowPeak(last, tuple(values), tuple(largest))


def under(contract, *parts, sizes=FIVE, peak=""):
    return judge_beneath(Beneath({"N": tuple(sizes)}, parts), parse_contract(contract), peak)


def over(contract, value, **sizes):
    """Returns the judgement of the values of a function at each point of a grid."""
    values = {at: value(*at) for at in product(*sizes.values())}
    made = {name: tuple(axis) for name, axis in sizes.items()}
    return judge_grid(made, values, parse_contract(contract), "peak")


def test_a_fit_says_what_it_grows_with():
    contract = parse_contract("O(N*d)")
    for text, reason in (
        ("4*N", "peak grows as 4*N"),
        ("4", "peak does not depend on N or d"),
        ("4*N*d", "peak grows as 4*N*d"),
    ):
        judged = judge_fit(expand(text), contract, ("N", "d"), "peak")
        assert (judged.answer, judged.reason, judged.terms) == (KEPT, reason, ())
    judged = judge_fit(expand("N^2 + 4*d"), contract, ("N", "d"), "peak")
    assert (judged.answer, judged.terms) == (BROKEN, ("N^2",))


NO_FIT = "no polynomial fits, and peak grows"


@pytest.mark.parametrize(
    ("contract", "sizes", "values", "answer", "reason"),
    [
        ("O(N)", FIVE, (9, 9, 6, 8, 10), UNKNOWN, None),
        ("O(N)", FIVE, (9, 4, 6, 8, 10), KEPT, "peak grows as 2*N where N >= 2"),
        ("O(N)", FOUR, (1, 4, 6, 7), KEPT, f"{NO_FIT} no faster than N"),
        ("O(N^2)", FOUR, (1, 4, 9, 15), KEPT, f"{NO_FIT} no faster than N^2"),
        ("O(N^2)", (1, 2, 3), (1, 4, 9), UNKNOWN, "3 sizes of N cannot tell; give 6"),
        ("O(1)", FOUR, (9, 7, 4, 3), KEPT, f"{NO_FIT} with no N"),
        ("O(1)", FOUR, (1, 2, 4, 9), BROKEN, f"{NO_FIT} with N"),
        ("O(1)", (1, 2), (1, 2), BROKEN, f"{NO_FIT} with N"),
        # Two places where one phase overtakes another explain four bends, but not five.
        ("O(N)", SEVEN[:6], (1, 2, 4, 8, 16, 32), UNKNOWN, None),
        ("O(N)", SEVEN, (1, 2, 4, 8, 16, 32, 64), BROKEN, f"{NO_FIT} faster than N"),
        ("O(N)", SEVEN, (1, 2, 4, 8, 12, 18, 64), UNKNOWN, None),
        ("O(N)", SEVEN, (1, 2, 4, 5, 16, 32, 64), UNKNOWN, None),
    ],
)
def test_sizes_of_one_symbol_are_judged(contract, sizes, values, answer, reason):
    judged = judge_line("N", sizes, values, parse_contract(contract), "peak")
    points = ", ".join(f"{value} B at {size}" for size, value in zip(sizes, values, strict=True))
    unclear = f"sizes cannot tell how peak grows with N: {points}"
    assert (judged.answer, judged.reason) == (answer, reason or unclear)


@pytest.mark.parametrize(
    ("contract", "value", "answer"),
    [
        ("O(N)", lambda n: n + n % 30, KEPT),  # remainders move it along a line
        ("O(N)", lambda n: n + n % 12, KEPT),  # by most just below the middle
        ("O(N^2)", lambda n: n * n + n % 30, KEPT),
        ("O(N)", lambda n: n * n.bit_length(), UNKNOWN),
        ("O(N^2)", lambda n: n * n.bit_length(), KEPT),
        ("O(1)", lambda n: 1000 // n * n, KEPT),
        ("O(1)", lambda n: n + n % 30, BROKEN),
    ],
)
def test_bytes_that_rise_no_faster_at_larger_sizes_keep_a_contract(contract, value, answer):
    sizes = (10, 20, 40, 70, 90, 130, 200, 310)
    judged = judge_line("N", sizes, [value(n) for n in sizes], parse_contract(contract), "peak")
    assert judged.answer is answer


@pytest.mark.parametrize(("count", "answer"), [(6, UNKNOWN), (7, KEPT)])
def test_seven_sizes_show_that_bytes_rise_no_faster(count, answer):
    sizes = (10, 20, 40, 70, 90, 130, 200)[:count]
    judged = judge_line("N", sizes, [n + n % 30 for n in sizes], parse_contract("O(N)"), "peak")
    assert judged.answer is answer


def test_a_branch_that_returns_is_no_phase():
    sizes = (64, 128, 192, 256, 512, 1024, 2048)

    def judged(value, contract):
        values = [value(n) for n in sizes]
        return judge_branches("N", sizes, values, parse_contract(contract), "peak")

    def dense(n):
        return n * n if n % 128 else 128 * n

    assert judged(dense, "O(N)").answer is UNKNOWN
    assert judged(dense, "O(N^2)") is None
    assert judged(lambda n: max(128 * n, 30_000), "O(N)") is None  # a phase ends once
    assert judged(lambda n: n * n.bit_length(), "O(N)") is None  # there is no form to leave


def test_a_corner_of_a_grid_may_show_the_form():
    judged = over("O(N*d)", lambda N, d: 4 * N if d > 1 else N**3, N=FOUR, d=FOUR)
    assert (judged.answer, judged.reason) == (KEPT, "peak grows as 4*N")
    judged = over("O(d)", lambda N, d: 4 * d if N > 1 else d**3, N=FOUR, d=FOUR)
    assert (judged.answer, judged.reason) == (KEPT, "peak grows as 4*d")


TOGETHER = "sizes cannot tell how peak grows with N and d together"
BENT, SLOW, SLOWER = (1, 2, 4, 9), (0, 4, 6, 7, 8), (0, 3, 5, 6, 7)


@pytest.mark.parametrize(
    ("contract", "value", "answer", "reason"),
    [
        ("O(N*d)", lambda N, d: SLOW[N] * SLOWER[d], KEPT, f"{NO_FIT} no faster than N"),
        # Each symbol alone may be allowed, and their product not.
        ("O(N + d)", lambda N, d: SLOW[N] * SLOWER[d], UNKNOWN, TOGETHER),
        ("O(N*d)", lambda N, d: BENT[N - 1] * d, UNKNOWN, TOGETHER),
        # Along d alone, there is no fit either, and the bytes grow.
        ("O(N)", lambda N, d: N * BENT[d - 1], UNKNOWN, TOGETHER),
    ],
)
def test_a_grid_without_a_form_is_judged_along_each_line(contract, value, answer, reason):
    judged = over(contract, value, N=FOUR, d=FOUR)
    assert (judged.answer, judged.reason) == (answer, reason)


def test_a_line_of_a_grid_with_a_form_comes_before_one_without():
    judged = over("O(N)", lambda N, d: N * N * BENT[d - 1], N=FIVE, d=FOUR)
    assert (judged.answer, judged.reason, judged.terms) == (BROKEN, "peak grows as N^2", ("N^2",))
    judged = over("O(d)", lambda d, N: N * N * BENT[d - 1], d=FOUR, N=FIVE)
    assert (judged.answer, judged.reason, judged.terms) == (BROKEN, "peak grows as N^2", ("N^2",))


def test_the_tensor_beneath_a_peak_that_grows_fastest_decides():
    slow = part([4 * n for n in FIVE], op="add")
    fast = part([4 * n * n for n in FIVE])
    judged = under("O(N)", slow, fast, peak="peak")
    assert (judged.answer, judged.held, judged.terms) == (BROKEN, fast.held, ("4*N^2",))
    assert judged.reason == "mul at a.py:1, beneath the peak, grows as 4*N^2"
    judged = under("O(N)", slow)
    assert (judged.answer, judged.held) == (KEPT, slow.held)
    assert judged.reason == "add at a.py:1 grows as 4*N"
    assert under("O(N)") == under("O(1)")
    assert (under("O(N)").answer, under("O(N)").reason) == (KEPT, "")
    unclear = part((1, 9, 2, 8, 5))
    assert under("O(N)", slow, unclear).held == unclear.held


def test_a_tensor_with_a_form_comes_before_one_without():
    without, with_one = part((1, 2, 4, 9, 17)), part([4 * n for n in FIVE], op="add")
    assert under("O(1)", without).answer is BROKEN
    judged = under("O(1)", without, with_one)
    assert (judged.answer, judged.held, judged.terms) == (BROKEN, with_one.held, ("4*N",))


SCRATCH = {"shape": (), "dtype": "", "op": "sum (scratch)"}
ALLOWED = part([100 * n for n in FIVE], op="add")


@pytest.mark.parametrize(
    ("scratch", "others", "answer"),
    [
        ((0, 200, 5, 200, 7), (ALLOWED,), KEPT),
        ((0, 201, 5, 200, 7), (ALLOWED,), UNKNOWN),
        ((0, 201, 5, 200, 7), (ALLOWED, ALLOWED), KEPT),
        ((0, 200, 5, 200, 7), (), UNKNOWN),
        ((0, 200, 5, 200, 7), (part([500] * 5, op="weights"),), UNKNOWN),
        ((0, 20, 5, 20, 7), (part((10, 20, 20, 20, 20), op="table"),), KEPT),
        ((0, 200, 5, 200, 7), (part([100 * n for n in FIVE], **SCRATCH),), UNKNOWN),
    ],
)
def test_scratch_without_a_form_is_kept_within_the_tensors_that_may_grow(scratch, others, answer):
    assert under("O(N)", part(scratch, **SCRATCH), *others).answer is answer


def test_a_tensor_without_a_form_is_not_taken_for_scratch():
    assert under("O(N)", part((0, 200, 5, 200, 7)), ALLOWED).answer is UNKNOWN


def square(count, sizes=FOUR):
    """Returns a part with some tensors of N*N elements in each run."""
    largest = [held(4 * n * n, (n, n)) for n in sizes]
    return part([c * one.nbytes for c, one in zip(count, largest, strict=True)], largest)


def test_the_shape_of_one_tensor_shows_a_form_that_few_sizes_do_not():
    judged = under("O(N)", square((1, 1, 2, 1)), sizes=FOUR)
    assert (judged.answer, judged.reason) == (BROKEN, "mul at a.py:1 grows as 4*N^2")
    judged = under("O(N^2)", square((1, 1, 1, 2)), sizes=FOUR)
    assert judged.answer is UNKNOWN
    # Five sizes show the form of all tensors together.
    judged = under("O(N)", square((2,) * 5, FIVE))
    assert (judged.answer, judged.terms) == (BROKEN, ("8*N^2",))


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 1), (2, 2), (3,), (4, 4)),  # not one number of dimensions
        ((1, 1), (2, 7), (3, 3), (4, 4)),  # not a line
        ((2, 2), (3, 3), (4, 4), (5, 5)),  # fewer elements than that are stored
    ],
)
def test_a_shape_that_is_no_product_of_lines_proves_nothing(shapes):
    largest = [held(4 * n * n, shape) for n, shape in zip(FOUR, shapes, strict=True)]
    one = part([one.nbytes * (1 + (n == 3)) for n, one in zip(FOUR, largest, strict=True)], largest)
    assert under("O(N)", one, sizes=FOUR).answer is UNKNOWN
    viewed = [held(4 * n * n + (4 if n == 1 else 0), (n, n)) for n in FOUR]  # a view at one size
    assert under("O(N)", part((8, 16, 72, 64), viewed), sizes=FOUR).answer is UNKNOWN


def test_a_shape_proves_nothing_over_several_symbols():
    sizes = {"N": tuple(FOUR), "d": tuple(FOUR)}
    largest = [held(4 * N * N * d, (N, N, d)) for N, d in product(FOUR, FOUR)]
    one = part([one.nbytes * (1 + place % 2) for place, one in enumerate(largest)], largest)
    judged = judge_beneath(Beneath(sizes, (one,)), parse_contract("O(N*d)"), "")
    assert judged.answer is UNKNOWN


def test_the_largest_part_that_grows_is_named():
    contract = parse_contract("O(N)")

    def named(*parts):
        return largest_part(Beneath({"N": tuple(FIVE)}, parts), contract)

    weights = part([500] * 5, op="weights")
    assert named() == named(weights) == ""
    assert named(weights, ALLOWED) == "beneath it add at a.py:1 grows as 100*N"
    table = part((10, 20, 20, 20, 20), op="table", where="")  # its line is not known
    assert named(table, ALLOWED) == "beneath it table does not depend on N where N >= 2"
