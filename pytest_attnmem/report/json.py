"""The JSON file: everything that was measured, for other programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import AttnMemError
from ..record import Record, from_dict, to_dict
from ..summary import Summary
from ..units import shown
from ..verdict import Outcome

SCHEMA = 1


def render(summary: Summary, environment: Mapping[str, Any]) -> str:
    """The file's text; results sorted by test and region."""
    highest = summary.highest
    data = {
        "schema": SCHEMA,
        "environment": dict(environment),
        "results": [_without_growth(row) for row in summary.records],
        "growth": [
            {"nodeid": row.nodeid, "region": row.region, "metric": row.metric, **growth}
            for row in summary.records
            for growth in row.growth
        ],
        "summary": {
            "budgets": summary.budgets,
            **{outcome.name.lower(): summary.count(outcome) for outcome in Outcome},
            "measured": len(summary.records) - summary.budgets,
            "session_peak_bytes": highest.peak_bytes if highest else None,
        },
    }
    return json.dumps(data, indent=2) + "\n"  # in ASCII: not every name can be written as UTF-8


def _without_growth(row: Record) -> dict[str, Any]:
    """A result; how it grows is told on its own."""
    return {name: value for name, value in to_dict(row).items() if name != "growth"}


def load(path: Path) -> tuple[tuple[Record, ...], dict[str, Any]]:
    """The records and the environment in a file; one of a newer minor version is read too.

    Raises:
        AttnMemError: the file cannot be read, or is not one that this version knows.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise AttnMemError(f"cannot read {path}: {error}") from error
    schema = data.get("schema") if isinstance(data, dict) else None
    number = schema if isinstance(schema, (int, float)) and not isinstance(schema, bool) else 0
    if not SCHEMA <= number < SCHEMA + 1:
        raise AttnMemError(
            f"cannot read {path}: its schema is {shown(schema)}, this version reads {SCHEMA}"
        )
    try:
        results, environment = data["results"], data["environment"]
    except KeyError as error:
        raise AttnMemError(f"cannot read {path}: it lacks {error}") from error
    if not isinstance(results, list) or not isinstance(environment, dict):
        raise AttnMemError(f"cannot read {path}: 'results' is no list or 'environment' no object")
    try:
        return tuple(from_dict(row) for row in results), environment
    except AttnMemError as error:
        raise AttnMemError(f"cannot read {path}: {error}") from error
