"""A formula plus a contract: parsing, and the bytes of the formula at other sizes."""

import pytest

from pytest_attnmem.budgets.budget import resolve
from pytest_attnmem.budgets.formula_and_contract import FormulaAndContract
from pytest_attnmem.budgets.parsing import parse
from pytest_attnmem.errors import AttnMemError, BudgetError
from pytest_attnmem.symbols.attention_shape import AttentionShape

GRAMMAR = (
    "a growth contract stands alone, or once after or before a '+' and a formula, as in"
    " P/W*18 + O(N*d)"
)
#: With O(), a sum and a symbol, one character more than a message shows.
LONG = "N*" * 26 + "dv"


def made(text):
    value = parse((text,), {}).limits["default"].value
    assert isinstance(value, FormulaAndContract)
    return value


@pytest.mark.parametrize(
    ("text", "formula", "contract"),
    [
        ("P/W*18 + O(N*d)", "P/W*18", "O(N*d)"),
        ("O(N*d)+P/W*18", "P/W*18", "O(N*d)"),
        ("8*N + O(N + d) + 64 MiB", "8*N + 64 MiB", "O(N + d)"),
        ("64 MiB + O(N)", "64 MiB", "O(N)"),
        ("2*-N\n + O((N + d)*N)", "2*-N", "O((N + d)*N)"),
    ],
)
def test_a_sum_has_a_formula_and_a_contract(text, formula, contract):
    value = made(text)
    assert (value.formula.text, value.contract.text) == (formula, contract)
    assert value.symbols == value.formula.symbols | value.contract.symbols
    assert parse((text,), {}).text == " ".join(text.split())


@pytest.mark.parametrize(
    ("text", "why"),
    [
        *(
            (text, "O(N) is not an operand of '+'")
            for text in ("O(N)*2", "O(N) - 5", "5/O(N)", "8*N - O(N)", "8*N + O(N) - 5", "8*N O(N)")
        ),
        ("O(N)+O(d)", "it has two contracts; write one, O(N + d)"),
        ("O(N)O(d)", "it has two contracts; write one, O(N + d)"),
        (f"O({LONG}) + O(d)", f"it has two contracts; write one, O({LONG} ..."),
        ("O(N) +", "nothing is added to O(N)"),
        ("(8*N + O(N)", "O(N) stands in parentheses"),
    ],
)
def test_what_is_no_sum_is_told_in_one_line(text, why):
    with pytest.raises(AttnMemError) as error:
        parse((text,), {})
    assert str(error.value) == f"cannot read budget '{text}': {why}; {GRAMMAR}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("5 + O(N)", "cannot parse size '5': it has no unit; write '5 B' or '5 MiB'"),
        (
            "8*N + O(N",
            "cannot read contract 'O(N'; a growth contract is a sum of products of symbols, such"
            " as O(N*d), O(N^2) or O(N + d), or O(1)",
        ),
    ],
)
def test_a_part_that_cannot_be_read_is_told_as_alone(text, message):
    with pytest.raises(AttnMemError) as error:
        parse((text,), {})
    assert str(error.value) == message


def test_a_resolved_sum_has_a_contract_and_the_values_of_its_formula():
    shape = AttentionShape({"N": 4, "d": 2, "P": 100, "W": 8})
    budget = resolve(parse(("P/W*18 + O(N*d)",), {"P": 100}), shape, ("cpu",))
    assert (budget.limit_bytes, budget.text) == (None, "P/W*18 + O(N*d)")
    assert budget.values == {"P": 100, "W": 8}
    assert budget.contract == budget.sum.contract
    with pytest.raises(BudgetError, match="symbols 'P', 'W' have no value"):
        resolve(parse(("P/W*18 + O(N*d)",), {}), AttentionShape({"N": 4}), ("cpu",))


def test_a_formula_that_may_grow_otherwise_at_larger_sizes_has_no_bytes_elsewhere():
    own = AttentionShape({"N": 512, "W": 8, "P": 10})
    wider = AttentionShape({"N": 256, "W": 8, "P": 10})
    assert made("8*N^2 + max(P, 3)/W + O(N)").bytes_at(wider, own) == 8 * 256**2 + 1
    assert made("P*N/W + O(N)").bytes_at(AttentionShape({**own.symbols, "W": 16}), own) == 320
    for part in ("8*N/2", "N*P/P*4", "N^1*4", "N^0*1024", "2^18/N", "ceil(N/64)*256", "N//64*256"):
        assert made(f"{part} + O(N)").bytes_at(wider, own) == 1024
    assert made("128*log2(N) + O(N)").bytes_at(wider, own) == 1024
    for part in ("max(8*N, 3)", "N^0.5", "2^N", "ceil(min(N, 64)/8)", "8/min(N, 4)"):
        with pytest.raises(BudgetError) as error:
            made(f"P + 3*{part} + O(N)").bytes_at(AttentionShape({**wider.symbols, "P": 20}), own)
        assert " in the budget may grow in another way with larger N, so sizes cannot tell" in str(
            error.value
        )
