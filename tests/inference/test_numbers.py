"""Numbers that a user gives: read exactly, or refused."""

from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.inference.numbers import Given, exact, positive, whole

NONE = (0, -1, 0.0, -0.5, float("nan"), float("inf"), True, None, "7e9", 1j, Decimal(1), [1])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (7e9, 7 * 10**9),
        (0.5, Fraction(1, 2)),
        (0.1, Fraction(1, 10)),  # the decimal, not the binary fraction
        (Fraction(1, 3), Fraction(1, 3)),
        (2**90 + 1, 2**90 + 1),
        (np.int64(7), 7),
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.5), Fraction(1, 2)),
        (1e30, 10**30),
        (1e-30, Fraction(1, 10**30)),
    ],
)
def test_a_number_is_taken_exactly(value, expected):
    assert exact("x", value) == expected
    assert positive("x", value) == float(expected)


@pytest.mark.parametrize(
    "value", [*NONE, np.bool_(True), 10**30 + 1, 1e-31, pytest.param(10**5000, id="long")]
)
def test_what_is_no_positive_number_is_refused_by_name(value):
    with pytest.raises(BudgetError) as caught:
        exact("bandwidth", value)
    with pytest.raises(BudgetError, match=r"^bandwidth: "):
        positive("bandwidth", value)
    assert str(caught.value).startswith("bandwidth: expected a number from 1e-30 to 1e30, got ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("value", [*NONE, 0.5, 2048.5, Fraction(3, 2), 10**31])
def test_what_is_not_whole_is_refused_by_name(value):
    with pytest.raises(BudgetError) as caught:
        whole("seq_len", value)
    assert str(caught.value).startswith("seq_len: expected a whole number from 1 to 1e30, got ")


@given(st.integers(1, 10**30))
def test_a_whole_number_stays_what_it_is(value):
    assert whole("x", value) == exact("x", value) == value


@given(st.floats(1e-30, 1e30))
def test_a_float_is_the_decimal_that_is_printed(value):
    assert exact("x", value) == Fraction(Decimal(repr(value)))
    assert positive("x", value) == value


def test_a_number_that_is_none_is_not_given():
    given = Given({"heads": None, "width": 64})
    assert ("heads" in given, "width" in given, "depth" in given) == (False, True, False)
    assert (given.whole("heads", 8), given.whole("width", 8)) == (8, 64)
    assert (given.exact("heads", Fraction(1, 2)), given.exact("width", 2)) == (Fraction(1, 2), 64)


def test_a_number_is_refused_by_the_name_that_the_user_knows():
    given = Given({"heads": 0, "width": 0}, {"heads": "--heads"})
    for name, label in (("heads", "--heads"), ("width", "width")):
        for read in (lambda name: given.whole(name), lambda name: given.exact(name, 1)):
            with pytest.raises(BudgetError, match=f"^{label}: expected a .*number from 1"):
                read(name)


def test_a_number_without_a_default_must_be_given():
    with pytest.raises(BudgetError) as caught:
        Given({}).whole("heads")
    assert str(caught.value) == "heads: expected a whole number from 1 to 1e30, got None"
