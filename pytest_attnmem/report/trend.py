"""Peaks for tools that draw them over commits: JSON of the form ``customSmallerIsBetter``.

A list of ``{"name", "unit": "B", "value", "extra"}``, as github-action-benchmark reads it. A line
of a chart is what has one name, so the name says where it was measured: numbers of one device do
not continue those of another. What was not enforced is left out, for its numbers are not to be
believed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..budgets.verdict import Outcome
from ..units import format_exact
from . import cells
from .record import Record
from .summary import Summary


def render(summary: Summary, environment: Mapping[str, Any]) -> str:
    """The file's text, sorted by test and region; of rows with one name, the larger number."""
    points: dict[str, dict[str, Any]] = {}
    for row in summary.records:
        if row.value is None or row.outcome is Outcome.NOT_ENFORCED or _unmeasured(row):
            continue
        name = _name(row)
        if name not in points or row.value > points[name]["value"]:
            points[name] = {"name": name, "unit": "B", "value": row.value, "extra": _extra(row)}
    return json.dumps([*points.values()], indent=2) + "\n"


def _unmeasured(row: Record) -> bool:
    return row.outcome is None and bool(row.reason)


def _name(row: Record) -> str:
    metric = "" if row.metric == "peak" else f" ({row.metric})"
    return f"{row.name}{metric} on {row.place}"


def _extra(row: Record) -> str:
    limit = "" if row.limit_bytes is None else format_exact(row.limit_bytes)
    budget = " = ".join(filter(None, dict.fromkeys((limit, row.budget))))
    parts = (cells.shape(row), f"budget {budget}" if budget else "", cells.outcome(row))
    return "\n".join(filter(None, parts))
