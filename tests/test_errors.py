"""What errors say in a reason, which is one line."""

import pytest

from pytest_attnmem.errors import first_line


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
