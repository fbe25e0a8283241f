"""The text of shapes of arguments."""

import pytest

from pytest_attnmem.errors import BudgetError
from pytest_attnmem.symbols.argument_shapes import Argument, parse_shapes


@pytest.mark.parametrize(
    ("text", "dims", "dtype"),
    [
        ("B H N d", ("B", "H", "N", "d"), ""),
        (" B,H, N ,64 ", ("B", "H", "N", 64), ""),
        ("int64: B N", ("B", "N"), "int64"),
        ("batch heads seq_len head_dim", ("B", "H", "N", "d"), ""),
        ("tokens", ("tokens",), ""),
    ],
)
def test_a_shape_is_symbols_and_numbers(text, dims, dtype):
    assert parse_shapes((text,)) == (Argument(dims, dtype),)


def test_what_is_no_text_is_passed_on():
    (shape, number) = parse_shapes(("N", 3))
    assert (shape.symbols, number) == (("N",), 3)


@pytest.mark.parametrize("text", ["", "B H-1", "0 N", "B:N:d", "N*d", "int64:"])
def test_what_is_no_shape_is_told_in_one_line(text):
    with pytest.raises(BudgetError) as error:
        parse_shapes((text,))
    assert str(error.value) == (
        f"cannot read shape {text!r}; a shape is symbols and numbers, 'B H N 64', with a dtype of"
        " its own before a colon where it needs one, 'int64: B N'"
    )


def test_no_shape_at_all_is_told():
    with pytest.raises(BudgetError) as error:
        parse_shapes((3,))
    assert str(error.value) == ("each tensor argument needs a shape, such as 'B H N d' 'B H M d'")
