"""Peaks for tools that plot them over commits: JSON of the form ``customSmallerIsBetter``.

A list of ``{"name", "unit": "B", "value", "extra"}``, as github-action-benchmark reads it. The
points of a chart's line share a name, so the name includes the device: the numbers of one device
do not continue those of another. Results that were not enforced are left out, because their
numbers may be wrong.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...budgets.verdict import Outcome
from ...units import format_exact
from ..record import Record

if TYPE_CHECKING:
    from ..summary import Summary


def render(summary: Summary, environment: Mapping[str, Any]) -> str:
    """Returns the text of the file, sorted by test and region.

    Rows with the same name are one point, with the largest of their numbers.
    """
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
    from .. import cells

    limit = "" if row.limit_bytes is None else format_exact(row.limit_bytes)
    budget = " = ".join(filter(None, dict.fromkeys((limit, row.budget))))
    parts = (cells.shape(row), f"budget {budget}" if budget else "", cells.outcome(row))
    return "\n".join(filter(None, parts))
