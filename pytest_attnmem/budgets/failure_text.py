"""A verdict in words: the failure text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction

from ..errors import FormulaError
from ..formulas import syntax_tree as expression
from ..formulas.formula import parse_formula
from ..formulas.syntax_tree import Node
from ..symbols.attention_shape import AttentionShape
from . import held_table as tensors
from .verdict import Outcome, Verdict


def explain(verdict: Verdict, shape: AttentionShape, *, listed: bool = True) -> str:
    """The failure text: the verdict, the budget and who holds memory at the peak.

    ``shape`` is the test's; ``listed`` is false where another text lists the tensors.
    """
    unproven = verdict.outcome is Outcome.NOT_ENFORCED
    lines = [f"not enforced: {verdict.reason}" if unproven else verdict.reason]
    if verdict.change:
        lines.append(f"  grew      {verdict.change}")
    budget, measurement = verdict.budget, verdict.measurement
    if budget is not None and budget.contract is not None:
        lines.append(f"  contract  {budget.text}   {budget.where}".rstrip())
        lines += [line for growth in verdict.growths[:1] for line in str(growth).splitlines()]
    if budget is not None and budget.limit_bytes is not None:
        values = " ".join(f"{name}={value}" for name, value in budget.values.items())
        parts = (budget.text, values, budget.where)
        if budget.text or values:
            lines.append("  budget    " + "   ".join(str(part) for part in parts if str(part)))
        lines += _grows(verdict, budget.text, shape)
    if measurement is not None and listed:
        at_end = budget is not None and budget.metric == "retained"
        lines += tensors.lines(measurement.held, "end" if at_end else "peak", verdict.more)
        if measurement.held_note:
            lines.append(f"  {measurement.held_note}")
    if verdict.hint:
        lines.append(f"  {verdict.hint}")
    return "\n".join(lines)


def _grows(verdict: Verdict, budget: str, shape: AttentionShape) -> Iterator[str]:
    """Yields a line for each symbol: the growth of the measurement, and of its budget.

    A symbol without a value of its own grows with the symbol that it equals by default: M with N.
    """
    for growth in verdict.growths:
        (symbol,) = growth.sizes
        found = growth.polynomial
        with suppress(FormulaError, ArithmeticError):
            degree = expression.degree(_told(budget, shape), symbol)
            if found is not None:
                yield f"  grows     as {found}; the budget as {_power(symbol, degree)}"


def _told(budget: str, shape: AttentionShape) -> Node:
    """Returns the formula in the symbols that have values of their own."""
    tree = parse_formula(budget).tree
    return expression.rename(tree, {name: shape.source(name) for name in expression.symbols(tree)})


def _power(symbol: str, degree: int | Fraction) -> str:
    return {0: "a constant", 1: symbol}.get(int(degree), f"{symbol}^{degree}")
