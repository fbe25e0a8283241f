"""Budgets written as arithmetic over symbols, such as ``64 MiB + 2*B*H*N*d*itemsize``.

Formulas come from test files and command lines, so they have a parser of their own: it executes
nothing, and bounds the length, the depth and the values of a formula.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from types import MappingProxyType
from typing import Final, NamedTuple, NoReturn

from ..errors import FormulaError, SizeError
from ..suggestion import product
from ..units import excerpt, parse_size
from . import exact_arithmetic, syntax_tree
from .syntax_tree import FUNCTIONS, PREFIX_RANK, RANKS, Binary, Call, Negation, Node, Number, Symbol

# A size may have every unit that parse_size accepts or explains, except B: 2 B could mean two bytes
# or 2*B, because B is a symbol too.
_TOKEN: Final = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<size>   [0-9]+(?:_[0-9]+)*(?:\.[0-9]+)?[ \t\r\n]*[KMGTkmgt][Ii]?[Bb](?![A-Za-z0-9_]) )
    | (?P<number> [0-9]+(?:_[0-9]+)*(?:\.[0-9]+)? )
    | (?P<name>   [A-Za-z_][A-Za-z0-9_]* )
    | (?P<sign>   \*\* | // | [-+*/^(),] )
    | (?P<end>    \Z )
    | (?P<other>  . ) )""",
    re.VERBOSE | re.DOTALL,
)

_EXPONENT: Final = re.compile("[eE]([0-9]{1,2})?")
_OPERANDS: Final = ("number", "size", "name")


class Token(NamedTuple):
    """A number, a size, a name or a sign, or the end; columns count from 1."""

    kind: str
    text: str
    column: int


def tokens(text: str) -> Iterator[Token]:
    """Yields the tokens of *text* in order; a character that no formula has is ``other``."""
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "other"
        yield Token(kind, match[kind], match.start(kind) + 1)


def side_by_side(before: Token, token: Token) -> bool:
    """Returns True if an operator is missing between two operands: ``2 N``, ``2(N + 1)``."""
    ends = before.kind in _OPERANDS or before.text == ")"
    if before.kind == token.kind == "name" and not product(token.text):
        return False  # prose, or Python's: B if H else 1
    return ends and (token.kind in _OPERANDS or token.text == "(")


def with_products(text: str, found: Sequence[Token]) -> str:
    """Returns *text* with a ``*`` for each missing operator, and in names such as ``BHN``."""
    written, end = "", 0
    for before, token in pairwise([Token("sign", "", 1), *found]):
        start = token.column - 1
        call = before.text in FUNCTIONS and token.text == "("
        missing = side_by_side(before, token) and not call
        written += "*" if missing else text[end:start]
        written += product(token.text) or token.text
        end = start + len(token.text)
    return written.strip()


def without_exponent(number: Token, token: Token) -> str:
    """Returns the plain form of ``1e9``, which reads as a number and a name; nothing for others."""
    written = _EXPONENT.fullmatch(token.text)
    if number.kind != "number" or token.column != number.column + len(number.text) or not written:
        return ""
    plain = number.text.isdecimal() and written[1]
    return number.text + "0" * int(written[1]) if plain else "all of its digits"


MAX_LENGTH: Final = 2000
MAX_DEPTH: Final = 50
_SHOWN: Final = 120  # characters of a formula that a message quotes

_GRAMMAR: Final = (
    "a formula is arithmetic over symbols: + - * / // ** ^ ( ) min max ceil log2, "
    "numbers and sizes like 64 MiB"
)
_OPERAND: Final = "a number, a symbol or '('"

_NO_VALUES: Final[Mapping[str, int | Fraction]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula: its text and its syntax tree. Formulas with equal trees are equal."""

    text: str = field(compare=False)
    tree: Node
    _symbols: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_symbols", syntax_tree.symbols(self.tree))

    @property
    def symbols(self) -> frozenset[str]:
        """Returns the names that need values."""
        return self._symbols

    def value(self, symbols: Mapping[str, int | Fraction]) -> Fraction:
        """Returns the formula's value in bytes, exact for rational values.

        The error of an irrational root or logarithm is less than 2**-63, and its floor and its
        ceiling are right.

        Raises:
            FormulaError: *symbols* lacks a name, an operation is undefined, or a value is too
                large.
        """
        if missing := sorted(self.symbols.difference(symbols)):
            known = f"known symbols are {', '.join(symbols)}" if symbols else "no symbol is known"
            raise FormulaError(f"{self._quoted()} needs a value for {', '.join(missing)}; {known}")
        values: dict[str, Fraction] = {}
        try:
            for name in sorted(self.symbols):
                values[name] = syntax_tree.evaluate(Symbol(name), symbols)
            return syntax_tree.evaluate(self.tree, values)
        except ArithmeticError as error:
            raise FormulaError(
                f"{self._quoted()} has no value{_given(values)}: {error}; change the formula"
            ) from None

    def evaluate(
        self, symbols: Mapping[str, int | Fraction] = _NO_VALUES, /, **named: int | Fraction
    ) -> int:
        """Returns the formula's value in whole bytes, rounded down: ``f.evaluate(N=1024, d=64)``.

        Raises:
            FormulaError: as in value(), or the value is negative.
        """
        symbols = {**symbols, **named}
        value = self.value(symbols)
        if value < 0:
            used = {name: symbols[name] for name in sorted(self.symbols)}
            raise FormulaError(
                f"{self._quoted()} is negative{_given(used)}: {math.floor(value)} bytes; "
                f"a size cannot be, so change the formula, as with max(0, ...)"
            )
        return math.floor(value)

    def degree(self, symbol: str) -> int | Fraction:
        """Returns the power of *symbol* that the formula grows with: 2 for ``N`` in ``N^2 + N``.

        Terms that cancel, as in ``N - N``, still count.

        Raises:
            FormulaError: an exponent is not constant.
        """
        try:
            degree = syntax_tree.degree(self.tree, symbol)
        except ArithmeticError as error:
            raise FormulaError(
                f"{self._quoted()} has no degree in {excerpt(symbol)}: {error}; "
                f"write exponents as numbers"
            ) from None
        return degree.numerator if degree.denominator == 1 else degree

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {excerpt(str(self), 200)}>"

    def __str__(self) -> str:
        """Returns the canonical text; it parses to the same value unless it is too long."""
        return syntax_tree.render(self.tree)

    def _quoted(self) -> str:
        return f'formula "{excerpt(self.text, _SHOWN)}"'


def parse_formula(text: str) -> Formula:
    """Returns the formula of a text.

    Raises:
        FormulaError: it is not a formula; the message says why and at which column.
    """
    if len(text) > MAX_LENGTH:
        raise FormulaError(
            f"{_unreadable(text)}: it has {len(text)} characters; write at most {MAX_LENGTH}"
        )
    return Formula(text, _Parser(text).parse())


def _given(values: Mapping[str, int | Fraction]) -> str:
    listed = ", ".join(f"{name}={value}" for name, value in values.items())
    return f" with {listed}" if listed else ""


def _unreadable(text: str) -> str:
    return f'cannot read formula "{excerpt(text, _SHOWN)}"'


class _Parser:
    """A precedence-climbing parser, which counts its nesting so that the stack cannot overflow."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tuple(tokens(text))
        self._index = 0
        self._depth = 0

    def parse(self) -> Node:
        tree = self._expression(0)
        if self._token.kind != "end":
            self._refuse_token(self._token, self._operator_expected())
        # Chains such as 1+1+1 deepen the tree without nesting the parser.
        if syntax_tree.height(tree) > MAX_DEPTH:
            self._refuse_depth()
        return tree

    @property
    def _token(self) -> Token:
        return self._tokens[self._index]

    def _next(self) -> Token:
        token = self._token
        self._index += 1
        return token

    def _expression(self, rank: int) -> Node:
        left = self._operand()
        while True:
            operator = "^" if self._token.text == "**" else self._token.text
            if RANKS.get(operator, 0) <= rank:
                return left
            self._next()
            if operator == "^":
                right = self._nested(PREFIX_RANK)
            else:
                right = self._expression(RANKS[operator])
            left = Binary(operator, left, right)

    def _nested(self, rank: int) -> Node:
        if self._depth == MAX_DEPTH:
            self._refuse_depth()
        self._depth += 1
        node = self._expression(rank)
        self._depth -= 1
        return node

    def _operand(self) -> Node:
        token = self._next()
        match token:
            case Token("size" | "number"):
                return self._number(token)
            case Token("name", name) if name in FUNCTIONS:
                return self._call(token)
            case Token("name", name) if not name.startswith("_"):
                if self._token.text == "(":
                    self._refuse_token(token, f"one of {' '.join(FUNCTIONS)} before '('")
                return Symbol(name)
            case Token("sign", "-"):
                return Negation(self._nested(PREFIX_RANK))
            case Token("sign", "+"):
                return self._nested(PREFIX_RANK)
            case Token("sign", "("):
                node = self._nested(0)
                self._require(")", f"{self._operator_expected()} or ')'")
                return node
        self._refuse_token(token, _OPERAND)

    def _number(self, token: Token) -> Node:
        try:
            if token.kind == "number":
                number = Fraction(token.text.replace("_", ""))
                exact_arithmetic.bounded(number)
                return Number(number)
            return Number(Fraction(parse_size(re.sub(r"[ \t\r\n]+", " ", token.text))))
        except SizeError as error:
            self._refuse(token, str(error))
        except ArithmeticError as error:
            self._refuse(token, f"{excerpt(token.text)} {error}; write fewer digits")

    def _call(self, token: Token) -> Node:
        self._require("(", f"'(' after {token.text}")
        arguments = [self._nested(0)]
        while self._token.text == ",":
            self._next()
            arguments.append(self._nested(0))
        self._require(")", f"{self._operator_expected()}, ',' or ')'")
        if token.text in ("min", "max"):
            fits, arity = len(arguments) >= 2, "at least 2 arguments"
        else:
            fits, arity = len(arguments) == 1, "1 argument"
        if not fits:
            self._refuse(token, f"{token.text} takes {arity}, found {len(arguments)}")
        return Call(token.text, tuple(arguments))

    def _require(self, sign: str, expected: str) -> None:
        token = self._next()
        if token.text != sign:
            self._refuse_token(token, expected)

    def _operator_expected(self) -> str:
        """Returns the words for a missing operator, with the formula that the user likely meant."""
        before, found = self._tokens[self._index - 1], self._token
        if exponent := without_exponent(before, found):
            return f"an operator; a number has no exponent, write {exponent}"
        if not side_by_side(before, found):
            return "an operator"
        written = with_products(self._text, self._tokens)
        try:
            parse_formula(written)
        except FormulaError:  # something else is wrong as well
            written = f"{before.text}*{excerpt(found.text)}"
        bytes_ = f" ({before.text} alone is in bytes)" if found.text == "B" else ""
        return f"an operator, as in {excerpt(written, _SHOWN)}{bytes_}"

    def _refuse_token(self, token: Token, expected: str) -> NoReturn:
        found = "the end" if token.kind == "end" else f"'{excerpt(token.text)}'"
        self._refuse(token, f"found {found}, expected {expected}; {_GRAMMAR}")

    def _refuse(self, token: Token, reason: str) -> NoReturn:
        # The reason has the text of an error that the parser of an operand raised.
        raise FormulaError(
            f"{_unreadable(self._text)} at column {token.column}: {reason}"
        ) from None

    def _refuse_depth(self) -> NoReturn:
        raise FormulaError(
            f"{_unreadable(self._text)}: it nests more than {MAX_DEPTH} levels deep; "
            f"group long chains with parentheses, as in (a + b) + (c + d)"
        )
