"""Syntax trees: symbols replaced by numbers and by other names."""

from fractions import Fraction

import pytest

from pytest_attnmem.formulas.formula import parse_formula
from pytest_attnmem.formulas.syntax_tree import evaluate, rename, render, substitute


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("N", "4"),
        ("d", "d"),
        ("-N + 2*d", "(-4) + 2*d"),
        ("-(N/3)*d", "(-4/3)*d"),
        ("2*N^2 + d", "32 + d"),
        ("max(N, d) + ceil(N/3)", "max(4, d) + 2"),
        ("N*log2(N)", "8"),
        ("64", "64"),
    ],
)
def test_numbers_replace_symbols_and_constant_parts_are_evaluated(text: str, written: str) -> None:
    assert render(substitute(parse_formula(text).tree, {"N": 4})) == written


def test_names_replace_names() -> None:
    tree = parse_formula("-N*max(d, 2)^N/ceil(B)").tree
    renamed = rename(tree, {"N": "M", "d": "N"})
    assert render(renamed) == "-M*max(N, 2)^M/ceil(B)"
    assert rename(renamed, {"M": "N", "N": "d"}) == tree


def test_a_value_may_be_a_fraction() -> None:
    tree = parse_formula("2*N + 1").tree
    assert evaluate(tree, {"N": Fraction(3, 2)}) == 4
    assert evaluate(tree, {"N": Fraction(6, 2)}) == 7
