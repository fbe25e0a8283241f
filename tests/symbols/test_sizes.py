"""Sizes that a user gives."""

from fractions import Fraction

import numpy as np
import pytest

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.symbols.sizes import as_size, as_sizes


@pytest.mark.parametrize("value", [1, 2**63 - 1, 10**40, np.int64(8)])
def test_a_size_is_a_python_int(value):
    found = as_size("f", "N", value)
    assert (found, type(found)) == (value, int)


@pytest.mark.parametrize("value", [0, -1, 1.0, Fraction(2), True, np.True_, "8", None])
def test_a_value_that_is_not_a_size_is_refused_by_name(value):
    with pytest.raises(BudgetError) as caught:
        as_size("f", "N", value)
    assert str(caught.value) == f"f needs N to be a whole number >= 1, got {value!r}"


def test_a_size_of_a_tensor_is_an_int64():
    assert as_size("f", "N", 2**63 - 1, bits=63) == 2**63 - 1
    with pytest.raises(BudgetError) as caught:
        as_size("f", "N", 2**63, bits=63)
    assert str(caught.value) == (
        "f needs N to be a whole number >= 1 and < 2**63, got 9223372036854775808"
    )


def test_sizes_keep_their_order():
    assert as_sizes("f", {"N": 3, "d": np.int32(2)}) == [3, 2]
