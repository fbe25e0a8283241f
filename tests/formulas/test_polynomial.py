"""Polynomials: their arithmetic, their text and their bounds."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.errors import FormulaError
from pytest_attnmem.formulas.formula import parse_formula
from pytest_attnmem.formulas.polynomial import Polynomial, expand, largest

SYMBOLS = ("B", "N", "d", "itemsize")
MONOMIALS = st.lists(st.tuples(st.sampled_from(SYMBOLS), st.integers(1, 3)), max_size=3).map(
    lambda factors: tuple(sorted(dict(factors).items()))
)
COEFFICIENTS = st.fractions(-100, 100, max_denominator=8)
POLYNOMIALS = st.dictionaries(MONOMIALS, COEFFICIENTS, max_size=5).map(Polynomial)
VALUES = st.fixed_dictionaries({name: st.integers(1, 50) for name in SYMBOLS})


@given(POLYNOMIALS, POLYNOMIALS, VALUES)
def test_sums_and_products_have_the_values_of_their_parts(a, b, values):
    assert (a + b).value(values) == a.value(values) + b.value(values)
    assert (a - b).value(values) == a.value(values) - b.value(values)
    assert (a * b).value(values) == a.value(values) * b.value(values)
    assert a.power(2).value(values) == a.value(values) ** 2


@given(POLYNOMIALS)
def test_what_is_printed_can_be_read_again(polynomial):
    assert expand(str(polynomial)) == polynomial
    assert hash(expand(str(polynomial))) == hash(polynomial)


@given(POLYNOMIALS, POLYNOMIALS, VALUES)
def test_a_bound_is_one(a, b, values):
    if a.bounds(b):
        assert a.value(values) >= b.value(values)


@given(st.lists(POLYNOMIALS, min_size=1, max_size=5), VALUES)
def test_the_largest_are_as_large_as_all(polynomials, values):
    kept = largest(polynomials)
    assert max(p.value(values) for p in kept) == max(p.value(values) for p in polynomials)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("8*B*H*N*d + 8 + 12*N*B*H*N", "12*B*H*N^2 + 8*B*H*N*d + 8"),
        ("(N + 1)^2 - N^2", "2*N + 1"),
        ("N - N", "0"),
        ("-(N)", "-N"),
        ("1 KiB*B/2 + B/3", "1537*B/3"),
        ("N*(B*H + d)*itemsize", "B*H*N*itemsize + N*d*itemsize"),
        ("4*ceil(N/32)*32*B", "128*B*ceil(N/32)"),
        ("max(N, M) + min(2, 3)", "max(N, M) + 2"),
        ("N//2*B", "B*N//2"),
        ("ceil(5/2)*N", "3*N"),
        ("tokens + N*zeta", "N*zeta + tokens"),
        ("tokens*alpha^2*M*N", "N*M*alpha^2*tokens"),
        ("N^0 + B^2^0", "B + 1"),
        ("d/3 - B/2 + N/2", "-B/2 + N/2 + d/3"),
        ("N/2 + d/3", "N/2 + d/3"),
    ],
)
def test_formulas_are_expanded(text, written):
    expanded = expand(text)
    assert str(expanded) == written
    values = {
        "B": 3,
        "H": 4,
        "N": 70,
        "M": 20,
        "d": 5,
        "itemsize": 2,
        "tokens": 9,
        "zeta": 6,
        "alpha": 7,
    }
    assert expanded.value(values) == parse_formula(text).value(values)


@pytest.mark.parametrize("text", ["N^d", "N^(1/2)", "2^N", "N^(-2)"])
def test_what_is_no_polynomial_is_refused(text):
    with pytest.raises(FormulaError, match="has an exponent that is not a whole number"):
        expand(text)


@pytest.mark.parametrize(
    ("text", "symbol", "degree"),
    [
        ("12*N^2*d + N", "N", 2),
        ("12*N^2*d + N", "d", 1),
        ("12*N^2*d + N", "H", 0),
        ("B*ceil(N/32)*N", "N", 2),
        ("ceil(N/32)^2", "N", 2),
        ("B*ceil(N/32)*N", "B", 1),
        ("7", "N", 0),
    ],
)
def test_degrees_count_what_is_inside_a_ceiling(text, symbol, degree):
    assert expand(text).degree(symbol) == degree


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (["N", "N + 1", "N"], ["N + 1"]),
        (["N^2", "8*N"], ["N^2", "8*N"]),  # 8*N is larger for N below 8
        (["N^2", "2*N - 1"], ["N^2"]),
        (["N^2", "N"], ["N^2"]),
        (["B*N", "N", "B"], ["B*N"]),
        (["N/2", "N"], ["N"]),
    ],
)
def test_what_is_bounded_by_another_is_left_out(texts, kept):
    assert [str(p) for p in largest(map(expand, texts))] == kept


def test_a_coefficient_of_nothing_is_no_term():
    assert Polynomial({(("N", 1),): Fraction(0)}) == Polynomial({})
    assert Polynomial({}).degree("N") == 0


def test_a_long_polynomial_is_shown_by_its_beginning():
    long = expand("(B + H + N + d)^6")
    assert repr(long) == f"<Polynomial: {str(long)[:197]}...>"


def test_each_atom_is_shifted_by_one_or_by_what_is_given():
    some = expand("5*B^3*N + 3*d + 7")
    assert some.shifted() == expand("5*(B + 1)^3*(N + 1) + 3*(d + 1) + 7")
    assert some.shifted({"B": 4, "N": 3}) == expand("5*(B + 4)^3*(N + 3) + 3*(d + 1) + 7")
    assert some.shifted({"B": 4}, otherwise=0) == expand("5*(B + 4)^3*N + 3*d + 7")
    assert some.shifted({"B": Fraction(1, 2)}, 2) == expand("5*(B + 1/2)^3*(N + 2) + 3*(d + 2) + 7")
    assert expand("ceil(N/8)^2").shifted({"N": 4}, 3) == expand("(ceil(N/8) + 1)^2")
