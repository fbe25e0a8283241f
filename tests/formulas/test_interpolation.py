"""Exact fits through points, and the number of points that must confirm them."""

import math
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.formulas.interpolation import confirmed, differences, over_grid, padded
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


def test_too_few_points_confirm_nothing():
    sizes = {"N": (128, 256, 384)}
    line = over_grid(sizes, {(n,): 4 * n for n in sizes["N"]})
    assert str(line) == "4*N"
    assert not confirmed(line, sizes)
    assert confirmed(line, {"N": (128, 256, 384, 512)})


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


def test_a_square_that_is_padded_is_recognised_too():
    sizes = [130, 257, 391, 500, 645, 777, 1000]
    found = padded("N", sizes, [n * n + 4 * n + 128 * math.ceil(n / 32) for n in sizes])
    assert str(found) == "N^2 + 4*N + 128*ceil(N/32)"


@pytest.mark.parametrize(
    "values",
    [
        [n * math.isqrt(n) for n in (130, 257, 391, 500, 645, 777, 1000)],
        [n * n * n for n in (130, 257, 391, 500, 645, 777, 1000)],
    ],
)
def test_what_is_no_padded_line_is_not_taken_for_one(values):
    assert padded("N", [130, 257, 391, 500, 645, 777, 1000], values) is None


def test_points_that_are_too_few_or_say_nothing_of_a_block_find_none():
    assert padded("N", [130, 257, 391], [1, 2, 3]) is None
    assert padded("N", [256, 512, 768, 1024, 1280], [1, 5, 2, 8, 3]) is None
