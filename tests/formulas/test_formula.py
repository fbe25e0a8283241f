"""Formulas: the grammar and its errors, exact values, degrees of growth, and canonical text."""

import ast
import math
import operator
from collections.abc import Callable
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_attnmem.errors import FormulaError
from pytest_attnmem.formulas.formula import Formula, parse_formula
from pytest_attnmem.formulas.syntax_tree import Binary, Call, Negation, Node, Number, Symbol

NAMES = ("B", "H", "N", "d_2")
GRAMMAR = (
    "a formula is arithmetic over symbols: + - * / // ** ^ ( ) min max ceil log2, "
    "numbers and sizes like 64 MiB"
)
OPERAND, OPERATOR = "a number, a symbol or '('", "an operator"
EXPONENT = "a number has no exponent, write"


def evaluate(text: str, **symbols: int) -> Fraction:
    return parse_formula(text).value(symbols)


def refusal(text: str, **symbols: int) -> str:
    """Returns the message of the error that parsing or evaluating a formula raises."""
    with pytest.raises(FormulaError) as error:
        parse_formula(text).evaluate(symbols)
    assert len(str(error.value).splitlines()) == 1
    return str(error.value)


numbers = st.one_of(
    st.integers(0, 2**40).map(Fraction),
    st.builds(lambda n, places: Fraction(n, 10**places), st.integers(0, 10**6), st.integers(0, 6)),
)
leaves = st.one_of(numbers.map(Number), st.sampled_from(NAMES).map(Symbol))


def branches(nodes: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    exponents = st.one_of(
        st.integers(-3, 4).map(lambda n: Number(Fraction(n)) if n >= 0 else negative(-n)), nodes
    )
    several = st.lists(nodes, min_size=2, max_size=4).map(tuple)
    return st.one_of(
        nodes.map(Negation),
        st.builds(Binary, st.sampled_from(["+", "-", "*", "/", "//"]), nodes, nodes),
        st.builds(Binary, st.just("^"), nodes, exponents),
        st.builds(Call, st.sampled_from(["min", "max"]), several),
        st.builds(Call, st.sampled_from(["ceil", "log2"]), nodes.map(lambda node: (node,))),
    )


def negative(number: int) -> Node:
    return Negation(Number(Fraction(number)))


trees = st.recursive(leaves, branches, max_leaves=12)
values = st.fixed_dictionaries({name: st.integers(0, 5000) for name in NAMES})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("007", 7),
        ("0.5", Fraction(1, 2)),
        ("0.1 + 0.2", Fraction(3, 10)),
        ("64 MiB", 64 * 1024**2),
        ("64MiB", 64 * 1024**2),
        ("64\n\tMiB", 64 * 1024**2),
        ("1.5 KiB*2", 3072),
        ("2 KiB^2", 2048**2),
        ("64 MiB + 2*B*H*N*d*itemsize", 64 * 1024**2 + 2 * 2 * 3 * 5 * 7 * 4),
        ("  N\r\n+ 1 ", 6),
        ("1 - 2 - 3", -4),
        ("1 - (2 - 3)", 2),
        ("8/4/2", 1),
        ("8/(4/2)", 4),
        ("7//2*2", 6),
        ("-7//2", -4),
        ("1/3", Fraction(1, 3)),
        ("2 + 3*4", 14),
        ("(2 + 3)*4", 20),
        ("2^3^2", 512),
        ("2**3**2", 512),
        ("(2^3)^2", 64),
        ("-2^2", -4),
        ("(-2)^2", 4),
        ("2^-1", Fraction(1, 2)),
        ("2^-1*4", 2),
        ("2*-3", -6),
        ("2 - -3", 5),
        ("--+-3", -3),
        ("+3", 3),
        ("0^0", 1),
        ("0^2", 0),
        ("0^0.5", 0),
        ("min(3, 1, 2)", 1),
        ("max(3, N)", 5),
        ("min(N + 2, N - 1, 2*N + 3)", 4),
        ("max(1 - N, 2 - N)", -3),
        ("ceil(7/2) + ceil(-7/2)", 1),
        ("ceil(N/64)*64", 64),
        ("log2(1024)", 10),
        ("log2(1/8)", -3),
        ("9^0.5", 3),
        ("(4/9)^(3/2)", Fraction(8, 27)),
        ("(1/27)^(1/3)", Fraction(1, 3)),
        ("4^-0.5", Fraction(1, 2)),
        ("1^64", 1),
        ("(2^60)^8", 2**480),
    ],
)
def test_value(text: str, value: int | Fraction) -> None:
    assert evaluate(text, B=2, H=3, N=5, d=7, itemsize=4) == value


@pytest.mark.parametrize(
    ("text", "column", "found", "expected"),
    [
        ("", 1, "the end", OPERAND),
        ("1 + ", 5, "the end", OPERAND),
        ("*2", 1, "'*'", OPERAND),
        (".5", 1, "'.'", OPERAND),
        ("[1]", 1, "'['", OPERAND),
        ("é", 1, "'é'", OPERAND),
        ("_N", 1, "'_N'", OPERAND),
        ("__import__('os')", 1, "'__import__'", OPERAND),
        ("B.real", 2, "'.'", OPERATOR),
        ("B = 1", 3, "'='", OPERATOR),
        ("B % 2", 3, "'%'", OPERATOR),
        ("lambda: 1", 7, "':'", OPERATOR),
        ("B if H else 1", 3, "'if'", OPERATOR),
        ("1 2", 3, "'2'", f"{OPERATOR}, as in 1*2"),
        ("2(3)", 2, "'('", f"{OPERATOR}, as in 2*(3)"),
        ("1, 2", 2, "','", OPERATOR),
        ("1)", 2, "')'", OPERATOR),
        ("2BH", 2, "'BH'", f"{OPERATOR}, as in 2*B*H"),
        ("1e6", 2, "'e6'", f"{OPERATOR}; {EXPONENT} 1000000"),
        ("1.5e-6*N", 4, "'e'", f"{OPERATOR}; {EXPONENT} all of its digits"),
        ("1.5e6*N", 4, "'e6'", f"{OPERATOR}; {EXPONENT} all of its digits"),
        ("2BHN^2", 2, "'BHN'", f"{OPERATOR}, as in 2*B*H*N^2"),
        (
            *("min(2Nd, 3) + 2(N+1)", 6, "'Nd'"),
            f"{OPERATOR}, as in min(2*N*d, 3) + 2*(N+1), ',' or ')'",
        ),
        ("2N + __x", 2, "'N'", f"{OPERATOR}, as in 2*N"),
        ("1__000", 2, "'__000'", f"{OPERATOR}, as in 1*__000"),
        ("N + 2 B", 7, "'B'", f"{OPERATOR}, as in N + 2*B (2 alone is in bytes)"),
        ("(1 + 2", 7, "the end", f"{OPERATOR} or ')'"),
        ("min(1, 2", 9, "the end", f"{OPERATOR}, ',' or ')'"),
        ("min()", 5, "')'", OPERAND),
        ("N*min", 6, "the end", "'(' after min"),
        ("f(3)", 1, "'f'", "one of min max ceil log2 before '('"),
    ],
)
def test_refusal_names_what_and_where(text: str, column: int, found: str, expected: str) -> None:
    assert refusal(text) == (
        f'cannot read formula "{text}" at column {column}: found {found}, expected {expected};'
        f" {GRAMMAR}"
    )


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("1 + min(2)", 5, "min takes at least 2 arguments, found 1"),
        ("ceil(1, 2)", 1, "ceil takes 1 argument, found 2"),
        (
            *("2*64 MB", 3),
            "cannot parse size '64 MB': write '64 MiB' (1 MiB = 1024**2 bytes); "
            "MB is used for both 10**6 and 2**20",
        ),
        (
            *("0.3 KiB", 1),
            "cannot parse size '0.3 KiB': it is not a whole number of bytes; "
            "round it, as in '307 B'",
        ),
    ],
)
def test_refusal_of_arguments_and_sizes_says_why(text: str, column: int, reason: str) -> None:
    assert refusal(text) == f'cannot read formula "{text}" at column {column}: {reason}'


def test_refusal_is_one_short_line() -> None:
    assert refusal("N\n+ ;\u2028") == (
        r'cannot read formula "N\n+ ;\u2028" at column 5: '
        f"found ';', expected {OPERAND}; {GRAMMAR}"
    )
    long = "N + " * 100
    assert refusal(long) == (
        f'cannot read formula "{long[:117]}..." at column 401: '
        f"found the end, expected {OPERAND}; {GRAMMAR}"
    )
    assert refusal("1" * 10**6) == (
        f'cannot read formula "{"1" * 117}...": it has 1000000 characters; write at most 2000'
    )


@pytest.mark.parametrize(
    ("number", "reason"),
    [("1" * 200, "large"), ("0." + "1" * 200, "fine a fraction")],
)
def test_number_is_bounded(number: str, reason: str) -> None:
    assert refusal(number) == (
        f'cannot read formula "{number[:117]}..." at column 1: {number[:61]}... '
        f"is too {reason} to be a number of bytes; write fewer digits"
    )


@pytest.mark.parametrize(
    "text",
    [
        "+".join("1" * 52),
        "/".join("1" * 1000),
        "**".join("2" * 52),
        "-" * 51 + "1",
        "+" * 1999 + "1",
        "(" * 51 + "1" + ")" * 51,
        "(" * 2000,
        "ceil(" * 400,
        "(1)*" * 9 + "(" * 51 + "1" + ")" * 51,
    ],
)
def test_depth_is_bounded(text: str) -> None:
    shown = text if len(text) <= 120 else text[:117] + "..."
    assert refusal(text) == (
        f'cannot read formula "{shown}": it nests more than 50 levels deep; '
        f"group long chains with parentheses, as in (a + b) + (c + d)"
    )


def test_depth_just_within_the_bound() -> None:
    for text in ("+".join("1" * 51), "+".join(["(1)"] * 51)):
        assert evaluate(text) == 51
    for text in ("-" * 50 + "1", "(" * 50 + "1" + ")" * 50, "^".join("1" * 51)):
        assert evaluate(text) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("9**9**9", "9^9^9 is too large to be a number of bytes"),
        ("9^9^9 + 1", "9^9^9 is too large to be a number of bytes"),
        ("(2^60)^9", "(2^60)^9 is too large to be a number of bytes"),
        ("(2^60)^(26/3)", "(2^60)^(26/3) is too large to be a number of bytes"),
        ("(-2^60)^9", "(-2^60)^9 is too large to be a number of bytes"),
        ("(2^60)^-9", "(2^60)^-9 is too fine a fraction to be a number of bytes"),
        ("(2^64)^7*2^64", "(2^64)^7*2^64 is too large to be a number of bytes"),
        ("1/(2^64)^7/2^64", "1/(2^64)^7/2^64 is too fine a fraction to be a number of bytes"),
        ("2^65", "2^65 has an exponent other than -64 to 64 or a fraction of such numbers"),
        ("2^-65", "2^-65 has an exponent other than -64 to 64 or a fraction of such numbers"),
        ("2^(1/65)", "2^(1/65) has an exponent other than -64 to 64 or a fraction of such numbers"),
        ("(-4)^0.5", "(-4)^0.5 takes a root of a negative number"),
        ("log2(0)", "log2(0) takes the logarithm of a number that is not positive"),
        ("log2(-1)", "log2(-1) takes the logarithm of a number that is not positive"),
        ("1/0", "1/0 divides by zero"),
        ("1//(2 - 2)", "1//(2 - 2) divides by zero"),
        ("0^-1", "0^-1 divides by zero"),
    ],
)
def test_undefined_value(text: str, reason: str) -> None:
    assert refusal(text) == f'formula "{text}" has no value: {reason}; change the formula'


def test_undefined_value_names_the_values_it_was_given() -> None:
    assert refusal("N/(H-2)", N=4, H=2, B=1) == (
        'formula "N/(H-2)" has no value with H=2, N=4: N/(H - 2) divides by zero; '
        "change the formula"
    )


@pytest.mark.parametrize("value", [2**512, 10**5000], ids=["513 bits", "5001 digits"])
def test_symbol_is_bounded(value: int) -> None:
    assert refusal("B + N", N=value, B=2) == (
        'formula "B + N" has no value with B=2: N is too large to be a number of bytes; '
        "change the formula"
    )


def test_missing_symbols() -> None:
    assert refusal("N*H*B", B=1, d=2) == (
        'formula "N*H*B" needs a value for H, N; known symbols are B, d'
    )
    assert refusal("N") == 'formula "N" needs a value for N; no symbol is known'


def test_evaluate_rounds_down_and_refuses_negative() -> None:
    assert parse_formula("N/2").evaluate({"N": 3}) == 1
    assert parse_formula("x").evaluate({"x": Fraction(7, 2)}) == 3
    assert parse_formula("-0").evaluate({}) == 0
    assert parse_formula("N*d").evaluate(N=3, d=4) == 12
    assert parse_formula("N*d").evaluate({"N": 2, "d": 4}, N=3) == 12
    assert refusal("N - 5", N=3) == (
        'formula "N - 5" is negative with N=3: -2 bytes; a size cannot be, '
        "so change the formula, as with max(0, ...)"
    )
    assert refusal("-1/2").startswith('formula "-1/2" is negative: -1 bytes;')


def test_symbols() -> None:
    assert parse_formula("64 MiB + 2*B*max(N, N_kv)^d - log2(-x1)").symbols == {
        *("B", "N", "N_kv", "d", "x1")
    }
    assert parse_formula("KiB").symbols == {"KiB"}
    assert parse_formula("64").symbols == frozenset()


def test_formula_compares_by_tree() -> None:
    assert parse_formula("2*N**2") == parse_formula("2 * N^2")
    assert parse_formula("1 KiB") == parse_formula("1024")
    assert parse_formula("N + B") != parse_formula("B + N")
    assert len({parse_formula("N+1"), parse_formula("N + 1"), parse_formula("(N + 1)")}) == 1
    assert parse_formula("N+1").text == "N+1"


@pytest.mark.parametrize(
    ("text", "degree"),
    [
        ("64 MiB", 0),
        ("N", 1),
        ("B", 0),
        ("-N", 1),
        ("2*B*H*N*d", 1),
        ("N*N + N", 2),
        ("N^2 - N^3", 3),
        ("1 + 1/N", 0),
        ("N^3//N", 2),
        ("B/N", -1),
        ("N^-2", -2),
        ("N^0.5", Fraction(1, 2)),
        ("N*N^(1/2)", Fraction(3, 2)),
        ("(N^2)^(1/2)", 1),
        ("min(N^2, B*N)", 1),
        ("min(N, 1024)", 0),
        ("max(N^2, B*N, 7)", 2),
        ("ceil(N/64)*N", 2),
        ("N*log2(N^2)", 1),
        ("2^B", 0),
        ("2^B^H*N", 1),
    ],
)
def test_degree(text: str, degree: int | Fraction) -> None:
    found = parse_formula(text).degree("N")
    assert found == degree
    assert type(found) is type(degree)


@pytest.mark.parametrize("power", ["2^N", "N^N", "N^H", "N^(1 + B - B)"])
@pytest.mark.parametrize("around", ["{}", "1 + {}", "log2({})"])
def test_degree_needs_constant_exponents(power: str, around: str) -> None:
    no_degree(around.format(power), f"{power} has an exponent that varies")


def test_degree_of_undefined_exponent() -> None:
    no_degree("N^(1/0)", "1/0 divides by zero")


def no_degree(text: str, why: str) -> None:
    with pytest.raises(FormulaError) as error:
        parse_formula(text).degree("N")
    assert str(error.value) == (
        f'formula "{text}" has no degree in N: {why}; write exponents as numbers'
    )


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("64MiB+2*B * H", "67108864 + 2*B*H"),
        ("((N))**2", "N^2"),
        ("1-(2-3)-4", "1 - (2 - 3) - 4"),
        ("1-(2*3)", "1 - 2*3"),
        ("a/(b*c)//(d//e)", "a/(b*c)//(d//e)"),
        ("(a^b)^c^d", "(a^b)^c^d"),
        ("(-2)^2", "(-2)^2"),
        ("-(2^2)", "-2^2"),
        ("-(a+b)", "-(a + b)"),
        ("-(a*b)", "-(a*b)"),
        ("(-a)*b", "-a*b"),
        ("2^(-1)", "2^-1"),
        ("2^(-B^2)", "2^-B^2"),
        ("2^(a*b)", "2^(a*b)"),
        ("-(-a)", "--a"),
        ("+a", "a"),
        ("min( (1) ,ceil(x))", "min(1, ceil(x))"),
        ("0.50 + 12.25 + 0.05 + 1.0", "0.5 + 12.25 + 0.05 + 1"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    formula = parse_formula(text)
    assert str(formula) == canonical
    assert parse_formula(canonical) == formula


def test_a_long_formula_is_shown_by_its_beginning():
    formula = parse_formula("+".join(["tokens"] * 40))
    assert repr(formula) == f"<Formula: {str(formula)[:197]}...>"


@pytest.mark.parametrize(
    "value", [Fraction(-3), Fraction(1, 3), Fraction(-1, 7), Fraction(3, 2**64)]
)
def test_canonical_text_of_a_tree_built_by_hand(value: Fraction) -> None:
    text = str(Formula("", Binary("^", Number(value), Number(Fraction(2)))))
    assert evaluate(text) == value**2


def test_operation_of_a_tree_built_by_hand() -> None:
    one = Number(Fraction(1))
    with pytest.raises(FormulaError) as error:
        Formula("by hand", Call("ceil", (one, one))).value({})
    assert str(error.value) == (
        'formula "by hand" has no value: ceil(1, 1) is not an operation of a formula; '
        "change the formula"
    )


@given(trees, values)
def test_canonical_text_round_trips(tree: Node, given_values: dict[str, int]) -> None:
    formula = Formula("", tree)
    again = parse_formula(str(formula))
    assert again == formula
    assert str(again) == str(formula)
    try:
        value = formula.value(given_values)
    except FormulaError:
        with pytest.raises(FormulaError):
            again.value(given_values)
    else:
        assert again.value(given_values) == value


PYTHON_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow,
}
PYTHON_FUNCTIONS = {"min": min, "max": max, "ceil": math.ceil}


def python_value(node: ast.expr, text: str, symbols: dict[str, int]) -> Fraction:
    """Returns the value of the text by Python's own grammar and Fraction."""

    def below(child: ast.expr) -> Fraction:
        return python_value(child, text, symbols)

    match node:
        case ast.Constant():
            return Fraction(ast.get_source_segment(text, node))
        case ast.Name(name):
            return Fraction(symbols[name])
        case ast.UnaryOp(ast.USub(), operand):
            return -below(operand)
        case ast.UnaryOp(ast.UAdd(), operand):
            return below(operand)
        case ast.BinOp(left, ast.Pow(), right):
            base, exponent = below(left), below(right)
            assume(exponent.denominator == 1)
            assume(abs(exponent) <= 64)
            return base**exponent.numerator
        case ast.BinOp(left, sign, right):
            return Fraction(PYTHON_OPERATORS[type(sign)](below(left), below(right)))
        case ast.Call(ast.Name(name), arguments):
            assume(name in PYTHON_FUNCTIONS)
            return Fraction(PYTHON_FUNCTIONS[name](*map(below, arguments)))
    raise AssertionError(ast.dump(node))


atoms = st.sampled_from([*NAMES, "0", "1", "2", "3", "0.5", "10", "1.25"])
texts = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("{}{}".format, st.sampled_from("+-"), inner),
        st.builds(
            "{} {}{}".format, inner, st.sampled_from(["+", "-", "*", "/", "//", "**"]), inner
        ),
        st.builds("({})".format, inner),
        st.builds("({})**{}".format, inner, st.sampled_from(["2", "3", "-1"])),
        st.builds("{}({}, {})".format, st.sampled_from(["min", "max"]), inner, inner),
        st.builds("ceil({})".format, inner),
    ),
    max_leaves=10,
)


@settings(deadline=2000)
@given(texts, st.fixed_dictionaries({name: st.integers(0, 9) for name in NAMES}))
def test_value_agrees_with_python(text: str, symbols: dict[str, int]) -> None:
    try:
        value = parse_formula(text).value(symbols)
    except FormulaError as error:
        # Only this module has bounds; Python must refuse every other text that it refuses.
        assume("divides by zero" in str(error))
        with pytest.raises(ZeroDivisionError):
            python_value(ast.parse(text, mode="eval").body, text, symbols)
    else:
        assert value == python_value(ast.parse(text, mode="eval").body, text, symbols)


pieces = st.one_of(
    st.sampled_from([*"+-*/^(),. \n_", "**", "//", "min(", "max(", "ceil(", "log2(", " MiB"]),
    st.sampled_from([*NAMES, "0", "1", "9", "64", "0.5", "99999999999", "MB", "é", "\x00"]),
    st.characters(),
)


def complaint(ask: Callable[[], object]) -> str:
    """Returns the message of the only error that may be raised, or an empty text."""
    try:
        ask()
    except FormulaError as error:
        return str(error)
    return ""


@settings(deadline=2000)
@given(st.one_of(st.lists(pieces, max_size=40).map("".join), st.text(), texts), values)
def test_any_text_is_a_formula_or_refused_in_one_line(text: str, symbols: dict[str, int]) -> None:
    def ask() -> None:
        formula = parse_formula(text)
        assert formula.evaluate({name: symbols.get(name, 1) for name in formula.symbols}) >= 0

    assert len(complaint(ask).splitlines()) <= 1


@settings(deadline=2000)
@given(trees, values)
def test_any_tree_has_a_degree_and_a_size_or_is_refused(
    tree: Node, symbols: dict[str, int]
) -> None:
    formula = Formula(str(Formula("", tree)), tree)
    assert len(complaint(lambda: formula.degree("N")).splitlines()) <= 1
    assert len(complaint(lambda: formula.evaluate(symbols)).splitlines()) <= 1


big = st.one_of(
    st.integers(1, 2**200),
    st.builds(lambda power, near: max(1, 2**power + near), st.integers(0, 199), st.integers(-2, 2)),
)


@given(big)
def test_ceil_of_log2_is_exact(n: int) -> None:
    ceiling = (n - 1).bit_length()
    assert evaluate("ceil(log2(n))", n=n) == ceiling
    assert evaluate("log2(n)//1", n=n) == n.bit_length() - 1
    assert evaluate("ceil(log2(1/n))", n=n) == 1 - n.bit_length()
    assert (evaluate("log2(n)", n=n).denominator == 1) == (n == 1 << ceiling)


@given(st.integers(1, 2**50), st.integers(1, 2**50))
def test_log2_agrees_with_floating_point(n: int, m: int) -> None:
    expected = math.log2(n) - math.log2(m)
    assert float(evaluate("log2(n/m)", n=n, m=m)) == pytest.approx(expected, abs=1e-12)


@given(big, st.integers(2, 7), st.integers(1, 3))
def test_root_is_exact_to_its_floor_ceiling_and_63_bits(n: int, degree: int, times: int) -> None:
    assume(n.bit_length() * times < 440 * degree)
    root = evaluate("n^(p/q)", n=n, p=times, q=degree)
    ulp = Fraction(1, 2**63)
    assert (root - ulp) ** degree < n**times < (root + ulp) ** degree
    assert math.floor(root) ** degree <= n**times <= math.ceil(root) ** degree


@given(st.integers(0, 2**60), st.integers(1, 2**60), st.integers(2, 8))
def test_root_of_a_perfect_power_is_exact(top: int, bottom: int, degree: int) -> None:
    root = Fraction(top, bottom)
    value = parse_formula("x^(1/q)").value({"x": root**degree, "q": degree})
    assert value == root
