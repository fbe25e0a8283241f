"""The syntax tree of a formula, and its value, degree, symbols and text.

The functions recurse: parse_formula keeps trees at most MAX_DEPTH levels deep.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final, TypeAlias

from ..units import excerpt
from . import exact_arithmetic

RANKS: Final[Mapping[str, int]] = MappingProxyType(
    {"+": 1, "-": 1, "*": 2, "/": 2, "//": 2, "^": 4}
)
"""The precedence of each binary operator."""

PREFIX_RANK: Final = 3
_ATOM_RANK: Final = 5

FUNCTIONS: Final = ("min", "max", "ceil", "log2")


@dataclass(frozen=True, slots=True)
class Number:
    """A constant; a size is in bytes."""

    value: Fraction


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that gets its value at evaluation."""

    name: str


@dataclass(frozen=True, slots=True)
class Negation:
    """The operand with its sign changed."""

    operand: "Node"


@dataclass(frozen=True, slots=True)
class Binary:
    """One of the operators in RANKS applied to two operands."""

    operator: str
    left: "Node"
    right: "Node"


@dataclass(frozen=True, slots=True)
class Call:
    """One of FUNCTIONS applied to its arguments."""

    function: str
    arguments: tuple["Node", ...]


Node: TypeAlias = Number | Symbol | Negation | Binary | Call


def operands(node: Node) -> tuple[Node, ...]:
    """Returns the nodes directly below *node*."""
    match node:
        case Negation(operand):
            return (operand,)
        case Binary(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
        case _:
            return ()


def height(node: Node) -> int:
    """Returns the number of levels below *node*, however many there are."""
    levels, level = 0, operands(node)
    while level:
        levels, level = levels + 1, tuple(below for above in level for below in operands(above))
    return levels


def symbols(node: Node) -> frozenset[str]:
    """Returns the names in *node* that need values."""
    if isinstance(node, Symbol):
        return frozenset({node.name})
    return frozenset().union(*map(symbols, operands(node)))


def _with_operands(node: Node, change: Callable[[Node], Node]) -> Node:
    """Returns *node* with each node directly below it changed."""
    match node:
        case Negation(operand):
            return Negation(change(operand))
        case Binary(operator, left, right):
            return Binary(operator, change(left), change(right))
        case Call(function, arguments):
            return Call(function, tuple(map(change, arguments)))
    return node


def substitute(node: Node, values: Mapping[str, int | Fraction]) -> Node:
    """Returns *node* with these symbols replaced by numbers, and constant parts evaluated."""
    if isinstance(node, Symbol):
        return Number(Fraction(values[node.name])) if node.name in values else node
    made = _with_operands(node, lambda below: substitute(below, values))
    return made if made is node or symbols(made) else Number(evaluate(made, {}))


def rename(node: Node, names: Mapping[str, str]) -> Node:
    """Returns *node* with these symbols under other names."""
    if isinstance(node, Symbol):
        return Symbol(names.get(node.name, node.name))
    return _with_operands(node, lambda below: rename(below, names))


def evaluate(node: Node, values: Mapping[str, int | Fraction]) -> Fraction:
    """Returns the value of *node*; raises ArithmeticError with the part that has no value."""
    return Fraction(_value(node, values))


def _value(node: Node, values: Mapping[str, int | Fraction]) -> int | Fraction:
    """Returns the value; an int if it is whole, since arithmetic on a Fraction takes long."""
    numbers = [_value(operand, values) for operand in operands(node)]
    try:
        return exact_arithmetic.bounded(_combine(node, numbers, values))
    except ArithmeticError as error:
        raise ArithmeticError(f"{excerpt(render(node))} {error}") from None


def _combine(
    node: Node, numbers: Sequence[int | Fraction], values: Mapping[str, int | Fraction]
) -> int | Fraction:
    match node, numbers:
        case Number(value), _:
            return _whole(value)
        case Symbol(name), _:
            given = values[name]
            return given if isinstance(given, int) else _whole(Fraction(given))
        case Negation(), [a]:
            return -a
        case Binary("+"), [a, b]:
            return a + b
        case Binary("-"), [a, b]:
            return a - b
        case Binary("*"), [a, b]:
            return a * b
        case Binary("/"), [a, b]:
            return _whole(exact_arithmetic.divide(Fraction(a), Fraction(b)))
        case Binary("//"), [a, b]:
            return math.floor(exact_arithmetic.divide(Fraction(a), Fraction(b)))
        case Binary("^"), [a, b]:
            return _whole(exact_arithmetic.power(Fraction(a), Fraction(b)))
        case Call("min"), _:
            return min(numbers)
        case Call("max"), _:
            return max(numbers)
        case Call("ceil"), [a]:
            return math.ceil(a)
        case Call("log2"), [a]:
            return _whole(exact_arithmetic.log2(Fraction(a)))
        case _:
            raise ArithmeticError("is not an operation of a formula")


def _whole(value: Fraction) -> int | Fraction:
    return value.numerator if value.denominator == 1 else value


def degree(node: Node, symbol: str) -> Fraction:
    """Returns the power of *symbol* that *node* grows with.

    Raises ArithmeticError if an exponent is not constant.
    """
    below = [degree(operand, symbol) for operand in operands(node)]
    match node:
        case Symbol(name):
            return Fraction(name == symbol)
        case Binary("*"):
            return sum(below, Fraction())
        case Binary("/" | "//"):
            return below[0] - below[1]
        case Binary("^", _, exponent):
            free = symbols(exponent)
            if symbol in free or (free and below[0]):
                raise ArithmeticError(f"{excerpt(render(node))} has an exponent that varies")
            return below[0] and below[0] * evaluate(exponent, {})
        case Call("min"):
            return min(below)
        case Number() | Call("log2"):
            return Fraction()
        case _:
            return max(below)


def render(node: Node) -> str:
    """Returns the canonical text of *node*, with no more parentheses than it needs."""
    match node:
        case Number(value):
            return _render_number(value)
        case Symbol(name):
            return name
        case Negation(operand):
            return "-" + _enclosed(operand, PREFIX_RANK)
        case Call(function, arguments):
            return f"{function}({', '.join(map(render, arguments))})"
        case Binary("^", left, right):
            return f"{_enclosed(left, _ATOM_RANK)}^{_enclosed(right, PREFIX_RANK)}"
        case Binary(operator, left, right):
            rank = RANKS[operator]
            spaced = f" {operator} " if operator in "+-" else operator
            return f"{_enclosed(left, rank)}{spaced}{_enclosed(right, rank + 1)}"


def _enclosed(node: Node, rank: int) -> str:
    match node:
        case Binary(operator):
            own = RANKS[operator]
        case Negation():
            own = PREFIX_RANK
        case _:
            own = _ATOM_RANK
    return render(node) if own >= rank else f"({render(node)})"


def _render_number(value: Fraction) -> str:
    for places in range(value.denominator.bit_length()):
        scaled = value * 10**places
        if scaled.denominator == 1 and value >= 0:
            digits = str(scaled.numerator).zfill(places + 1)
            return f"{digits[:-places]}.{digits[-places:]}" if places else digits
    # A text cannot have such a number, but a tree made by code can.
    return f"({value})"
