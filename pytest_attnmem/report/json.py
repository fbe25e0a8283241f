"""The JSON file: all results, for other programs; ``schema.json`` describes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ..budgets.verdict import Outcome
from ..contents import json_of
from ..errors import AttnMemError
from ..units import shown
from .record import Record, from_dict, to_dict
from .summary import Summary

SCHEMA = 1

_WRITE: Final = "write it with --attnmem-json"

#: The fields that name the result of a growth.
_NAMES: Final = ("nodeid", "region", "metric", "backend", "device")


def render(summary: Summary, environment: Mapping[str, Any]) -> str:
    """Returns the text of the file, with results sorted by test and region."""
    highest = summary.highest
    data = {
        "schema": SCHEMA,
        "environment": dict(environment),
        # The growth of a result has a section of its own.
        "results": [
            {name: value for name, value in to_dict(row).items() if name != "growth"}
            for row in summary.records
        ],
        "growth": [
            {name: getattr(row, name) for name in _NAMES} | dict(growth)
            for row in summary.records
            for growth in row.growth
        ],
        "summary": {
            "budgets": summary.budgets,
            **{outcome.name.lower(): summary.count(outcome) for outcome in Outcome},
            "expected_failures": summary.expected,
            "measured": len(summary.records) - summary.budgets,
            "session_peak_bytes": highest.peak_bytes if highest else None,
        },
    }
    return json.dumps(data, indent=2) + "\n"  # ASCII, because UTF-8 cannot encode every name


def _with_growth(results: list[Any], growth: list[Any]) -> Iterator[Any]:
    """Yields each result with its growth; if several have the same names, the first one gets it."""
    grown: dict[str, list[Any]] = {}
    for found in growth:
        grown.setdefault(_key(found), []).append(
            {name: value for name, value in found.items() if name not in _NAMES}
        )
    for row in results:
        own = grown.pop(_key(row), []) if isinstance(row, dict) else []
        yield {**row, "growth": own} if own else row


def _is_growth(found: object) -> bool:
    if not isinstance(found, dict) or not isinstance(found.get("sizes"), dict):
        return False
    lists = [found.get("peaks"), *found["sizes"].values()]
    numbers = all(isinstance(part, list) and all(map(_is_int, part)) for part in lists)
    return numbers and isinstance(found.get("formula", 0), (str, type(None)))


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _key(data: Mapping[str, Any]) -> str:
    return json.dumps([data.get(name) for name in _NAMES])


def load(path: Path) -> tuple[tuple[Record, ...], dict[str, Any]]:
    """Returns the records and the environment in a file; newer minor versions are accepted.

    Rendering them gives the same file again, unless it has another minor version.

    Raises:
        AttnMemError: the file cannot be read, or has a schema that this version does not know.
    """
    data = json_of(path, f"; {_WRITE}")
    try:
        return _read(data)
    except AttnMemError as error:
        raise AttnMemError(f"cannot read {path}: {error}") from error


def _read(data: Any) -> tuple[tuple[Record, ...], dict[str, Any]]:
    schema = data.get("schema") if isinstance(data, dict) else None
    number = schema if isinstance(schema, (int, float)) and not isinstance(schema, bool) else 0
    if not SCHEMA <= number < SCHEMA + 1:
        raise AttnMemError(f"its schema is {shown(schema)}, this version reads {SCHEMA}")
    try:
        results, environment = data["results"], data["environment"]
    except KeyError as error:
        raise AttnMemError(f"it lacks {error}; {_WRITE}") from error
    if not isinstance(results, list) or not isinstance(environment, dict):
        raise AttnMemError("'results' is not a list or 'environment' is not an object")
    growth = data.get("growth", [])
    if not isinstance(growth, list) or not all(map(_is_growth, growth)):
        raise AttnMemError("'growth' is not a list of sizes, peaks and formulas")
    return tuple(from_dict(row) for row in _with_growth(results, growth)), environment
