"""What errors say in a reason, which is one line; and what else they are."""

import pytest

from pytest_attnmem.errors import AttnMemError, BudgetError, FormulaError, SizeError, first_line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "CUDA error: invalid argument\nCompile with `TORCH_USE_CUDA_DSA`",
            "CUDA error: invalid argument",
        ),
        ("\n  the second line\nthe third", "the second line"),
        (" \n", "ValueError"),
        ("", "ValueError"),
    ],
)
def test_the_first_line_of_an_error_or_its_kind(text, line):
    assert first_line(ValueError(text)) == line


@pytest.mark.parametrize("kind", [SizeError, FormulaError, BudgetError])
def test_a_value_that_cannot_be_read_is_a_value_error_of_ours(kind):
    assert issubclass(kind, AttnMemError)
    assert issubclass(kind, ValueError)
