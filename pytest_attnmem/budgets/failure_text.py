"""The failure text of a verdict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction

from ..errors import FormulaError
from ..formulas import syntax_tree
from ..formulas.formula import parse_formula
from ..formulas.syntax_tree import Node
from ..measurement.measurement import Measurement
from ..symbols.attention_shape import AttentionShape
from ..units import format_size
from . import held_table
from .budget import Budget
from .failure_topic import topic
from .verdict import Outcome, Verdict


def explain(verdict: Verdict, shape: AttentionShape, *, listed: bool = True) -> str:
    """Returns the failure text: the verdict, the budget, the tensors that hold memory, the topic.

    ``shape`` is the shape of the test; ``listed`` is False if another text lists the tensors.
    """
    lines = [verdict.reason]
    if verdict.outcome is Outcome.NOT_ENFORCED:
        lines = [f"not enforced: {verdict.reason}"]
        lines += [f"  {verdict.obstacle.remedy}"] if verdict.obstacle else []
    if verdict.change:
        lines.append(f"  grew      {verdict.change}")
    budget, measurement = verdict.budget, verdict.measurement
    if budget is not None and budget.contract is not None:
        label = "contract" if budget.sum is None else "budget  "
        lines.append(f"  {label}  " + "   ".join(filter(None, _written(budget))))
        lines += [line for growth in verdict.growths[:1] for line in str(growth).splitlines()]
    if budget is not None and budget.limit_bytes is not None:
        text, values, where = _written(budget)
        if text or values:
            lines.append("  budget    " + "   ".join(filter(None, (text, values, where))))
        lines += _growth_lines(verdict, budget.text, shape)
        lines += _workspace_lines(budget.metric, measurement)
    if measurement is not None and listed:
        at_end = budget is not None and budget.metric == "retained"
        lines += held_table.lines(measurement.held, "end" if at_end else "peak", verdict.more)
        if measurement.held_note:
            lines.append(f"  {measurement.held_note}")
    if verdict.hint:
        lines.append(f"  {verdict.hint}")
    lines.append(f"  attnmem explain {topic(verdict).value}")
    return "\n".join(lines)


def _written(budget: Budget) -> tuple[str, str, str]:
    """Returns the text of a budget, the values of its symbols, and its line."""
    values = " ".join(f"{name}={value}" for name, value in budget.values.items())
    return budget.text, values, str(budget.where)


def _growth_lines(verdict: Verdict, budget: str, shape: AttentionShape) -> Iterator[str]:
    """Yields a line for each symbol: the growth of the measurement and of its budget.

    A symbol without a value grows with the symbol that it equals by default: M with N. An argument
    that the budget does not name has a line if memory grows with it.
    """
    for growth in verdict.growths:
        (symbol,) = growth.sizes
        polynomial = growth.polynomial
        with suppress(FormulaError, ArithmeticError):
            tree = _in_given_symbols(budget, shape)
            if polynomial is None:
                continue
            degree = syntax_tree.degree(tree, symbol)
            grows = f"as {polynomial}" if polynomial.degree(symbol) else f"not with {symbol}"
            if symbol in syntax_tree.symbols(tree):
                yield f"  grows     {grows}; the budget as {_power(symbol, degree)}"
            elif polynomial.degree(symbol):
                yield f"  grows     {grows}; the budget does not name {symbol}"


def _workspace_lines(metric: str, measurement: Measurement | None) -> Iterator[str]:
    """Yields a line for each library whose workspace is a part of the peak."""
    if metric in ("peak", "allocated") and measurement is not None:
        for tensor in measurement.held:
            if tensor.workspace:
                yield (
                    f"  of which  {format_size(tensor.nbytes)} {tensor.op}, which PyTorch allocates"
                    " for a new stream, and from 2.15 on at each product;"
                    " --attnmem-workspaces out leaves the latter out"
                )


def _in_given_symbols(budget: str, shape: AttentionShape) -> Node:
    """Returns the formula in the symbols that have values of their own."""
    tree = parse_formula(budget).tree
    sources = {name: shape.source(name) for name in syntax_tree.symbols(tree)}
    return syntax_tree.rename(tree, sources)


def _power(symbol: str, degree: int | Fraction) -> str:
    return {0: "a constant", 1: symbol}.get(int(degree), f"{symbol}^{degree}")
