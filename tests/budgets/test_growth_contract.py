"""Growth contracts: parsing, and the terms that break them."""

import pytest

from pytest_attnmem.budgets.growth_contract import is_contract, parse_contract
from pytest_attnmem.errors import BudgetError
from pytest_attnmem.formulas.polynomial import expand


@pytest.mark.parametrize(
    ("text", "peak", "broken"),
    [
        ("O(N*d)", "8*N*d + 4*N + 4*d + 99", []),
        ("O(N*d)", "12*N^2 + N*d", ["N^2"]),
        ("O(N*d)", "N*d^2", ["N*d^2"]),
        ("O(N)", "N*d^2 + B*N", []),  # d and B are not varied here
        ("O(N + d)", "N + d", []),
        ("O(N + d)", "N*d", ["N*d"]),
        ("O(N^2)", "N^2 + N", []),
        ("O(N**2 + 4*N*d)", "N^2 + N*d + d", []),
        ("O(N**2 + N*d)", "N^2*d", ["N^2*d"]),
        ("O(seq_len)", "N", []),
        ("O(N)", "ceil(N/32)", []),
        ("O(N)", "N*ceil(N/32)", ["N*ceil(N/32)"]),
        # N is varied, but the contract does not name it.
        ("O(d)", "ceil(N/32)*d", ["ceil(N/32)*d"]),
        ("O(1)", "N + 8", ["N"]),
        ("O(1)", "8 - N", []),
        ("O(N)", "N - N^2", []),  # a negative term is allowed
        (" O ( N ) ", "N^3 + N^2", ["N^3", "N^2"]),
    ],
)
def test_a_term_that_divides_none_of_the_contracts_breaks_it(text, peak, broken):
    contract = parse_contract(text)
    terms = contract.broken_by(expand(peak), "N")
    assert {expand(term) for term in broken} == {
        type(expand(peak))({monomial: 1}) for monomial in terms
    }


def test_a_quotient_by_the_number_of_ranks_bounds_that_symbol_alone():
    contract = parse_contract("O(N*d/W)")
    assert (contract.degree("W"), contract.symbols) == (-1, {"N", "d", "W"})
    assert contract.without("W").allowed == parse_contract("O(N*d)").allowed
    assert contract.broken_by(expand("8*N*d"), "N") == ()  # W is not varied here
    assert parse_contract("O(1/W + 1)").degree("W") == 0
    mixed = parse_contract("O(N/W + d)")
    assert mixed.broken_by(expand("8*N"), "N") == ()
    assert str(mixed.undivided("W").allowed) == "((('d', 1),),)"
    assert contract.undivided("W") is None


@pytest.mark.parametrize(
    ("text", "degrees"),
    [("O(N*d)", {"N": 1, "d": 1, "B": 0}), ("O(N^2 + N*d^3)", {"N": 2, "d": 3})],
)
def test_degrees(text, degrees):
    contract = parse_contract(text)
    assert {symbol: contract.degree(symbol) for symbol in degrees} == degrees
    assert contract.symbols == {symbol for symbol, degree in degrees.items() if degree}
    assert str(contract) == text


@pytest.mark.parametrize(
    ("text", "together"), [("O(N*d)", True), ("O(N + d)", False), ("O(N^2 + N*d)", False)]
)
def test_the_highest_powers_of_symbols_may_be_allowed_together(text, together):
    assert parse_contract(text).allows_all(["N", "d"]) is together


@pytest.mark.parametrize(
    ("text", "symbols", "divided"),
    [
        ("O(B*N + N*d + B*d)", ("B", "N"), False),
        ("O(B*N + N*d + B*d)", ("B", "N", "d"), True),
        ("O(B + N + d)", ("B", "N"), True),
        ("O(B + N + d)", ("B", "N", "d"), False),  # each two of them show it
        ("O(B*N + d)", ("B", "N", "d"), False),  # B and d show it
        ("O(N^2 + N*d)", ("N", "d"), True),  # N^2*d
        ("O(N*d)", ("N", "d"), False),
        ("O(N)", ("N",), False),
    ],
)
def test_a_product_may_be_one_that_only_a_grid_of_all_its_symbols_shows(text, symbols, divided):
    assert parse_contract(text).divides(symbols) is divided


def test_a_symbol_that_may_neither_grow_nor_shrink_is_judged_even_if_it_is_not_varied():
    contract = parse_contract("O(1/W + 1)")
    assert contract.broken_by(expand("4*W + 8"), ()) == ((("W", 1),),)


def test_a_constant_contract_names_no_symbol():
    for text in ("O(1)", "O(4)", "O(N^0)"):
        contract = parse_contract(text)
        assert (contract.symbols, contract.degree("N")) == (frozenset(), 0)
        assert contract.allows_constant
    assert parse_contract("O(N + 1)").allows_constant
    assert not parse_contract("O(N)").allows_constant
    assert parse_contract("O(N/2)").allowed == ((("N", 1),),)  # a coefficient is no constant


GRAMMAR = (
    "a growth contract is a sum of products of symbols, such as O(N*d), O(N^2) or O(N + d), or O(1)"
)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("o(N)", ""),
        ("O(N", ""),
        ("O(N) + 1", ""),
        ("O(log2(N))", ": log2(N) is not a power"),
        ("O(N - d)", ": a term is subtracted"),
        ("O(0)", ": it allows nothing"),
        ("O(N^d)", ": N^d has an exponent that is not a whole number"),
    ],
)
def test_what_is_no_contract_is_told_in_one_line(text, why):
    with pytest.raises(BudgetError) as error:
        parse_contract(text)
    assert str(error.value) == f"cannot read contract '{text}'{why}; {GRAMMAR}"


def test_the_parser_of_formulas_has_its_say():
    with pytest.raises(BudgetError, match=r"cannot read contract 'O\(N\*\)': cannot read formula"):
        parse_contract("O(N*)")


@pytest.mark.parametrize(
    ("text", "answer"), [("O(N)", True), (" O (N", True), ("O*N", False), ("OO(N)", False)]
)
def test_a_contract_is_told_from_a_formula(text, answer):
    assert is_contract(text) is answer


@pytest.mark.parametrize(
    ("text", "sizes", "nbytes"),
    [
        ("O(N*d)", {"N": 64, "d": 16}, 1024),
        ("O(N*d)", {"N": 64}, 64),
        ("O(N^2 + d)", {"N": 3, "d": 16}, 16),
        ("O(N^2 + d)", {"N": 3, "d": 8}, 9),
        ("O(N*d/W)", {"N": 5, "d": 3, "W": 4}, 3),
        ("O(N*d/W)", {"N": 5, "d": 3}, 0),
        ("O(1)", {}, 1),
    ],
)
def test_the_bytes_of_a_contract_at_sizes(text, sizes, nbytes):
    assert parse_contract(text).at(sizes) == nbytes
