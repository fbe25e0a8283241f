"""Exact fits through points, and the number of points that must confirm them."""

import math
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.formulas.interpolation import (
    confirmed,
    differences,
    line,
    over_grid,
    padded,
    shared,
    solution,
    tail,
)
from pytest_attnmem.formulas.polynomial import Polynomial, expand

COEFFICIENTS = st.integers(-(10**9), 10**9)


@given(st.lists(COEFFICIENTS, min_size=1, max_size=4), st.sets(st.integers(1, 10**5), min_size=6))
def test_a_polynomial_of_one_symbol_is_found_again(coefficients, sizes):
    wanted = Polynomial(
        {((("N", power),) if power else ()): c for power, c in enumerate(coefficients)}
    )
    sizes = sorted(sizes)
    found = over_grid({"N": sizes}, {(n,): wanted.value({"N": n}) for n in sizes})
    assert found == wanted
    assert confirmed(found, {"N": sizes})
    order = len(coefficients)
    assert not any(differences(sizes, [wanted.value({"N": n}) for n in sizes], order))


@pytest.mark.parametrize(
    "text", ["12*N^2 + 8*N*d + 8", "4*N*d^2*B + 3*B", "7", "N^2*d - 5*N", "B*N*d/2"]
)
def test_a_polynomial_of_several_is_found_again(text):
    wanted = expand(text)
    sizes = {"N": (128, 256, 384, 640, 1024), "d": (16, 32, 40, 64, 96), "B": (1, 2, 3, 4)}
    points = {
        at: wanted.value(dict(zip(sizes, at, strict=True))) for at in product(*sizes.values())
    }
    found = over_grid(sizes, points)
    assert found == wanted
    assert confirmed(found, sizes)


@given(
    st.sampled_from([8, 16, 32, 64, 128]),
    st.integers(0, 10**6),
    st.integers(1, 10**6),
    st.integers(1, 10**6),
)
def test_a_line_that_is_padded_is_recognised(block, constant, slope, step):
    sizes = [130, 257, 391, 500, 645, 777, 1000]
    values = [constant + slope * n + step * math.ceil(n / block) for n in sizes]
    found = padded("N", sizes, values)
    assert found == expand(f"{constant} + {slope}*N + {step}*ceil(N/{block})")


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (lambda n: n * n + 4 * n + 128 * math.ceil(n / 32), "N^2 + 4*N + 128*ceil(N/32)"),
        (lambda n: n * math.isqrt(n), "None"),
        (lambda n: n * n * n, "None"),
    ],
)
def test_a_square_that_is_padded_is_recognised_and_nothing_else(value, form):
    sizes = [130, 257, 391, 500, 645, 777, 1000]
    assert str(padded("N", sizes, [value(n) for n in sizes])) == form


def test_points_that_are_too_few_or_say_nothing_of_a_block_find_none():
    for sizes in ([130], [130, 257], [130, 257, 391], [130, 257, 391, 500]):
        assert padded("N", sizes, [4 * size for size in sizes]) is None
    assert padded("N", [256, 512, 768, 1024, 1280], [1, 5, 2, 8, 3]) is None


def test_each_symbol_needs_points_of_its_own_that_confirm():
    four, three = (1, 2, 3, 4), (1, 2, 3)
    assert confirmed(expand("N*d"), {"N": four, "d": four})
    assert not confirmed(expand("N*d"), {"N": four, "d": three})
    assert not confirmed(expand("N*d"), {"N": three, "d": four})
    line = over_grid({"N": three}, {(n,): 4 * n for n in three})
    assert str(line) == "4*N"
    assert not confirmed(line, {"N": three})
    assert confirmed(line, {"N": four})


def test_a_line_has_two_sizes_more_than_it_needs():
    assert line("N", (5, 6, 7), (3, 3, 3)) == expand("3")
    assert line("N", (5, 6), (3, 3)) is None
    assert line("N", (5, 6, 7, 8), (15, 18, 21, 24)) == expand("3*N")
    assert line("N", (5, 6, 7), (15, 18, 21)) is None


@pytest.mark.parametrize(
    ("sizes", "values", "form"),
    [
        ((1, 2, 3, 4, 6), [12 // w + 5 + 7 * w for w in (1, 2, 3, 4, 6)], "7*W + 5 + 12/W"),
        ((1, 2, 3, 4), [12 // w + 5 + 7 * w for w in (1, 2, 3, 4)], None),
        ((1, 2, 3, 4), [12 // w + 5 for w in (1, 2, 3, 4)], "5 + 12/W"),
        ((1, 2, 3), [12 // w + 5 for w in (1, 2, 3)], None),
        ((1, 2, 3), [12 // w for w in (1, 2, 3)], "12/W"),
        ((1, 2), [12, 6], None),
        ((1, 2, 3, 4, 5, 6, 7), [w * w for w in (1, 2, 3, 4, 5, 6, 7)], None),
    ],
)
def test_the_share_of_a_rank_has_two_worlds_more_than_it_needs(sizes, values, form):
    found = shared("W", sizes, values)
    assert (None if found is None else str(found)) == form


def test_the_sizes_of_the_tail_are_the_most_that_show_a_form():
    sizes = (1, 2, 3, 4, 5, 6)
    assert tail("N", sizes, (9, 9, 3, 4, 5, 6)) == (2, expand("N"))
    assert tail("N", sizes, (9, 1, 7, 5, 5, 5)) == (3, expand("5"))
    assert tail("N", sizes, (9, 1, 7, 2, 5, 5)) is None
    assert tail("N", (), ()) is None


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ((300, 400, 500, 600, 700, 760), True),
        ((300, 400, 500, 510, 600, 700), False),
        ((300, 400, 600, 650, 700, 760), False),
        ((300, 350, 400, 450, 500, 600), False),
    ],
)
def test_a_step_needs_three_sizes_on_each_side(sizes, found):
    values = [4 * n + 100 * math.ceil(n / 256) for n in sizes]
    assert padded("N", sizes, values) == (expand("4*N + 100*ceil(N/256)") if found else None)


def test_sizes_that_do_not_tell_two_blocks_apart_show_no_form():
    sizes = (10, 20, 30, 70, 80, 90)
    assert [math.ceil(n / 64) for n in sizes] == [1, 1, 1, 2, 2, 2]
    assert [math.ceil(n / 32) for n in sizes] == [1, 1, 1, 3, 3, 3]
    values = [4 * n + 100 * math.ceil(n / 64) for n in sizes]
    assert padded("N", sizes, values) is None
    # At 100, the two differ.
    assert padded("N", (*sizes, 100), [*values, 600]) == expand("4*N + 100*ceil(N/64)")
    assert padded("N", (*sizes, 100), [*values, 650]) == expand("4*N + 50*ceil(N/32) + 50")
    assert padded("N", (*sizes, 100), [*values, 601]) is None


def test_five_sizes_are_enough_for_a_padded_line_and_six_for_a_square():
    sizes = (3, 9, 20, 33, 50, 83)
    values = [7 + 2 * n + 5 * math.ceil(n / 8) for n in sizes]
    assert padded("N", sizes[:5], values[:5]) == expand("7 + 2*N + 5*ceil(N/8)")
    assert padded("N", sizes[:4], values[:4]) is None
    values = [n * n + 5 * math.ceil(n / 8) for n in sizes]
    assert padded("N", sizes, values) == expand("N^2 + 5*ceil(N/8)")
    assert padded("N", sizes[:5], values[:5]) is None


def test_factors_of_columns_are_found_among_fractions():
    half, third = Fraction(1, 2), Fraction(1, 3)
    rows = [[half, third], [1, third], [0, 0]]
    assert solution(rows, [5, 8, 0]) == [6, 6]
    assert solution(rows, [5, 8, 1]) is None
    assert solution([[1, half], [2, 1]], [3, 6]) is None
    assert solution([[0, 2], [third, 1]], [4, 3]) == [3, 2]
