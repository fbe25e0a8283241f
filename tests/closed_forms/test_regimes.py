"""Where each of several polynomials is the largest."""

import pytest

from pytest_attnmem.closed_forms.terms import regime
from pytest_attnmem.formulas.polynomial import expand


@pytest.mark.parametrize(
    ("one", "others", "text"),
    [
        ("8*B*H*N^2", ["4*B*H*N^2 + 4*B*H*N*d"], "for N >= d"),
        ("4*B*H*N^2 + 4*B*H*N*d", ["8*B*H*N^2"], "for N <= d"),
        ("12*N*hidden", ["37*hidden^2"], "for N >= (37*hidden)/12"),
        ("6*B*N + 2", ["40"], "for N >= 19/(3*B)"),
        ("9*N", ["90", "8*N + 4"], "for N >= 10 and N >= 4"),
        ("40*N*layers - 20*N", ["900"], "for N >= 45/(2*layers - 1)"),
        ("N^2", ["7"], ""),
        ("N*d - N", ["d^2"], ""),
        ("N^2", [], ""),
    ],
)
def test_the_condition_is_on_one_symbol(one, others, text):
    assert regime(expand(one), map(expand, others)) == text


@pytest.mark.parametrize("N", [1, 2, 5, 6, 7, 30])
@pytest.mark.parametrize("B", [1, 2, 3])
def test_the_condition_is_true_where_the_polynomial_is_the_largest(B, N):
    one, other = expand("6*B*N + 2"), expand("40")
    at = {"B": B, "N": N}
    assert (one.value(at) >= other.value(at)) is (3 * B * N >= 19)
