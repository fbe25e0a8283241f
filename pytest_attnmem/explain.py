"""A verdict in words: the failure text."""

from __future__ import annotations

from collections.abc import Mapping

from . import tensors
from .verdict import Outcome, Verdict


def explain(verdict: Verdict, symbols: Mapping[str, int]) -> str:
    """The failure text: the verdict, the budget and who holds memory at the peak.

    ``symbols`` are the test's, for telling which of them a tensor's sizes are.
    """
    unproven = verdict.outcome is Outcome.NOT_ENFORCED
    lines = [f"not enforced: {verdict.reason}" if unproven else verdict.reason]
    budget, measurement = verdict.budget, verdict.measurement
    if budget is not None and budget.contract is not None:
        lines += [f"  contract  {budget.text}   {budget.where}".rstrip(), *verdict.points]
    if budget is not None and budget.limit_bytes is not None:
        values = " ".join(f"{name}={value}" for name, value in budget.values.items())
        parts = (budget.text, values, budget.where)
        lines.append("  budget    " + "   ".join(part for part in parts if part))
    if measurement is not None:
        at_end = budget is not None and budget.metric == "retained"
        lines += tensors.lines(measurement.held, symbols, "end" if at_end else "peak")
        if measurement.held_note:
            lines.append(f"  {measurement.held_note}")
    return "\n".join(lines)
