"""The failure text of a verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from fractions import Fraction
from math import prod
from typing import Final

from ..errors import FormulaError
from ..formulas import syntax_tree
from ..formulas.formula import parse_formula
from ..formulas.polynomial import Polynomial, expand
from ..formulas.syntax_tree import Node
from ..measurement.held import SAVED, Held
from ..measurement.measurement import Measurement
from ..measurement.tensor_groups import grouped
from ..symbols.attention_shape import AttentionShape
from ..units import format_size, format_values
from . import held_table
from .budget import Budget
from .verdict import Outcome, Verdict

#: Operators that copy what is there already, and those that make one type from another.
_COPIES: Final = frozenset(
    {"cat", "clone", "constant_pad_nd", "copy", "gather", "index", "index_select", "repeat"}
    | {"repeat_interleave", "stack", "view_copy"}
)
_CASTS: Final = frozenset({"to_copy", "_to_copy"})
_LENGTHS: Final = frozenset("NM")
_OF_TRAINING: Final = frozenset({"parameter", "gradient", "optimizer", SAVED})


class Topic(Enum):
    """A section of ``attnmem explain``."""

    PARTS = "parts"
    SCORES = "scores"
    MASK = "mask"
    COPY = "copy"
    DTYPE = "dtype"
    TEMPORARIES = "temporaries"
    SAVED = "saved"
    RETAINED = "retained"
    SCRATCH = "scratch"
    OUT_OF_MEMORY = "out-of-memory"
    NOT_ENFORCED = "not-enforced"


def topic(verdict: Verdict) -> Topic:
    """Returns the topic of a verdict: what failed, or what the largest of its tensors is."""
    measurement, budget = verdict.measurement, verdict.budget
    if verdict.outcome is Outcome.NOT_ENFORCED:
        return Topic.NOT_ENFORCED
    if measurement is None:
        return Topic.PARTS
    if measurement.out_of_memory is not None:
        return Topic.OUT_OF_MEMORY
    held = verdict.more or measurement.held
    if verdict.leak:
        return Topic.RETAINED
    if budget.metric == "retained":
        return Topic.SAVED if any(_is_saved(one) for one in held) else Topic.RETAINED
    value = measurement.value(budget.metric)
    limit = budget.limit_bytes if budget.exact and not verdict.regression else None
    below = value is not None and limit is not None and value < limit
    return Topic.PARTS if below or not held else _of_tensors(held, value, budget.limit_bytes)


def _of_tensors(held: tuple[Held, ...], value: int | None, limit: int | None) -> Topic:
    """Returns the topic of the largest tensors."""
    groups = grouped(held)
    if groups[0].held.scratch:
        if _is_mostly_scratch(held, value, limit):
            return Topic.SCRATCH
        groups = [one for one in groups if not one.held.scratch]
    largest = groups[0].held
    masks = (one.held for one in groups if one.held.dtype == "bool")
    if any(prod(mask.shape) >= prod(largest.shape) for mask in masks):
        return Topic.MASK
    kept = bool(largest.holder) and not _is_saved(largest)
    if kept and largest.role not in _OF_TRAINING and not _of_all_pairs(largest):
        return Topic.RETAINED
    if largest.op in _CASTS:
        return Topic.DTYPE
    if largest.op in _COPIES:
        return Topic.COPY
    if _of_all_pairs(largest):
        alike = sum(one.count for one in groups if _of_all_pairs(one.held))
        return Topic.SCORES if alike < 3 else Topic.TEMPORARIES
    if kept:
        return Topic.RETAINED
    of_layers = "*" in largest.module  # a tensor of each layer, which only a backward pass frees
    saved = of_layers or _is_saved(largest) or largest.role in _OF_TRAINING
    return Topic.SAVED if saved else _of_temporaries(held, value, limit)


def _is_mostly_scratch(held: tuple[Held, ...], value: int | None, limit: int | None) -> bool:
    """Returns True if scratch makes the excess, or half of what is held where nothing limits it."""
    scratch = sum(one.nbytes for one in held if one.scratch)
    if value is None or limit is None:
        return 2 * scratch >= sum(one.nbytes for one in held)
    return scratch >= value - limit


def _of_temporaries(held: tuple[Held, ...], value: int | None, limit: int | None) -> Topic:
    """Returns ``copy`` if copies alone make the excess."""
    largest = max(one.nbytes for one in held)
    excess = largest if value is None or limit is None else value - limit
    copies = sum(one.nbytes for one in held if one.op in _COPIES)
    return Topic.COPY if copies and copies >= excess else Topic.TEMPORARIES


def _is_saved(held: Held) -> bool:
    return held.role == SAVED or held.holder.startswith("saved by ")


def _of_all_pairs(held: Held) -> bool:
    """Returns True for a tensor with a number for each pair of a query and a key."""
    if held.dims:
        return len(held.dims) > 1 and {*held.dims[-2:]} <= _LENGTHS
    return len(held.shape) > 2 and held.shape[-2] == held.shape[-1]


def explain(verdict: Verdict, shape: AttentionShape, *, listed: bool = True) -> str:
    """Returns the failure text: the verdict, the budget, the tensors that hold memory, the topic.

    ``shape`` is the shape of the test; ``listed`` is False if another text lists the tensors.
    """
    lines = [verdict.reason]
    if verdict.outcome is Outcome.NOT_ENFORCED:
        lines = [f"not enforced: {verdict.reason}"]
        lines += [f"  {verdict.obstacle.remedy}"] if verdict.obstacle else []
    lines += explanation(verdict, shape)
    measurement = verdict.measurement
    if measurement is not None and listed:
        at_end = verdict.budget.metric == "retained"
        lines += held_table.lines(measurement.held, "end" if at_end else "peak", verdict.more)
        if measurement.held_note:
            lines.append(f"  {measurement.held_note}")
    if verdict.hint:
        lines.append(f"  {verdict.hint}")
    lines.append(f"  attnmem explain {topic(verdict).value}")
    return "\n".join(lines)


def explanation(verdict: Verdict, shape: AttentionShape) -> Iterator[str]:
    """Yields the lines below the reason: what grew, the budget, and the growth of both."""
    if verdict.change:
        yield f"  grew      {verdict.change}"
    budget = verdict.budget
    if budget.contract is not None:
        label = "contract" if budget.sum is None else "budget  "
        yield f"  {label}  " + "   ".join(filter(None, _written(budget)))
        for growth in verdict.growths[:1]:
            yield from str(growth).splitlines()
    if budget.limit_bytes is not None:
        text, values, where = _written(budget)
        if text or values:
            yield "  budget    " + "   ".join(filter(None, (text, values, where)))
        yield from _growth_lines(verdict, budget, shape)
        yield from _workspace_lines(budget.metric, verdict.measurement)


def _written(budget: Budget) -> tuple[str, str, str]:
    """Returns the text of a budget, the values of its symbols, and its line."""
    return budget.text, format_values(budget.values), str(budget.where)


def _growth_lines(verdict: Verdict, budget: Budget, shape: AttentionShape) -> Iterator[str]:
    """Yields a line for each symbol with which the measurement and its budget grow differently.

    A symbol without a value grows with the symbol that it equals by default: M with N. An argument
    that the budget does not name has a line if memory grows with it.
    """
    for growth in verdict.growths:
        (symbol,) = growth.sizes
        grown = growth.polynomial
        if grown is None:
            continue
        grows = f"as {grown}" if grown.degree(symbol) else f"not with {symbol}"
        with suppress(FormulaError, ArithmeticError):
            tree = parse_formula(budget.text).tree
            sources = {name: shape.source(name) for name in syntax_tree.symbols(tree)}
            tree = syntax_tree.rename(tree, sources)
            if symbol in syntax_tree.symbols(tree):
                values = {shape.source(name): value for name, value in budget.values.items()}
                allowed = _grown(tree, symbol, values)
                if isinstance(allowed, str) or (grown - allowed).degree(symbol):
                    yield f"  grows     {grows}; the budget as {allowed}"
            elif grown.degree(symbol):
                yield f"  grows     {grows}; the budget does not name {symbol}"


def _grown(tree: Node, symbol: str, values: Mapping[str, int | Fraction]) -> Polynomial | str:
    """Returns a budget as a polynomial of one symbol, or as its power where it is none."""
    known = {name: value for name, value in values.items() if name != symbol}
    try:
        return expand(syntax_tree.render(tree), known)
    except FormulaError:
        return _power(symbol, syntax_tree.degree(tree, symbol))


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


def _power(symbol: str, degree: Fraction) -> str:
    power = f"{degree}" if degree.denominator == 1 else f"({degree})"
    names = {Fraction(0): "a constant", Fraction(1): symbol}
    return names.get(degree, f"{symbol}^{power}")
