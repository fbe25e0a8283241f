"""A formula plus a growth contract: ``P/W*18 + O(N*d)``."""

from __future__ import annotations

import re
from collections.abc import Set
from dataclasses import dataclass
from math import floor

from ..errors import BudgetError
from ..formulas.formula import Formula
from ..formulas.syntax_tree import Binary, Call, Negation, Node, Number, Symbol, render, symbols
from ..symbols.attention_shape import AttentionShape
from ..units import excerpt, shown
from .growth_contract import Contract, contracts_in, parse_contract

#: The grammar of a budget with a contract, for messages.
_GRAMMAR = (
    "a growth contract stands alone, or once after or before a '+' and a formula, as in"
    " P/W*18 + O(N*d)"
)


@dataclass(frozen=True, slots=True)
class FormulaAndContract:
    """A formula, and a contract on the growth of the bytes over it."""

    text: str
    formula: Formula
    contract: Contract

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols that the formula reads, or that the contract names."""
        return self.formula.symbols | self.contract.symbols

    def bytes_at(self, shape: AttentionShape, own: AttentionShape) -> int:
        """Returns the bytes of the formula at other sizes than the test's *own*, rounded down.

        Raises:
            BudgetError: a symbol has no value, or the formula has a minimum, a maximum or an odd
                power of a symbol that has another value: a few sizes do not tell its growth.
            FormulaError: an operation is undefined.
        """
        names = sorted(self.formula.symbols)
        values, before = shape.read(names), own.read(names)
        changed = {name for name in names if values[name] != before[name]}
        if part := _irregular(self.formula.tree, changed):
            varied = ", ".join(name for name in names if name in changed & symbols(part))
            raise BudgetError(
                f"{render(part)} in the budget may grow in another way with larger {varied}, so"
                " sizes cannot tell how memory grows over it"
            )
        return floor(self.formula.value(values))


def split(text: str) -> tuple[str, Contract]:
    """Returns the text of the formula, empty for a contract alone, and the contract.

    Raises:
        BudgetError: the text is neither a contract nor a sum of a contract and a formula.
    """
    start, *others = contracts_in(text)
    end = _end(text, start)
    before, after = text[:start].rstrip(), text[end:].lstrip()
    if not before and not after:
        return "", parse_contract(text)
    contract = parse_contract(text[start:end])
    if any(other >= end for other in others):
        why = f"it has two contracts; write one, {excerpt(_joined(text), 60)}"
    elif (before and before[-1] != "+") or (after and after[0] != "+"):
        why = f"{contract} is not an operand of '+'"
    elif before.count("(") != before.count(")"):
        why = f"{contract} stands in parentheses"
    else:
        rest = f"{before[:-1]}{after}" if before else after[1:]
        if rest.strip():
            return rest.strip(), contract
        why = f"nothing is added to {contract}"
    raise BudgetError(f"cannot read budget {shown(text)}: {why}; {_GRAMMAR}")


def _end(text: str, start: int) -> int:
    """Returns the place after the parenthesis that ends the contract at *start*."""
    depth = 0
    for match in re.compile(r"[()]").finditer(text, start):
        depth += 1 if match[0] == "(" else -1
        if depth == 0:
            return match.end()
    return len(text)


def _joined(text: str) -> str:
    """Returns one contract that allows what every contract of *text* allows."""
    starts = contracts_in(text)
    inside = [text[text.index("(", at) + 1 : _end(text, at) - 1].strip() for at in starts]
    return f"O({' + '.join(inside)})"


def _irregular(node: Node, changed: Set[str]) -> Node | None:
    """Returns a part that may grow in another way at sizes that did not run, such as a minimum."""
    if not symbols(node) & changed:
        return None
    match node:
        case Symbol():
            return None
        case Negation(operand):
            return _irregular(operand, changed)
        case Call("ceil" | "log2", arguments):
            return _irregular(arguments[0], changed)
        case Binary("+" | "-" | "*" | "/" | "//", left, right):
            return _irregular(left, changed) or _irregular(right, changed)
        case Binary("^", base, Number(power)) if power.denominator == 1 and power >= 0:
            return _irregular(base, changed)
    return node
