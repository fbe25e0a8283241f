"""The CSV file: a line for each result, as RFC 4180 has it, for spreadsheets.

Columns are the fields of the JSON that are one value each, in its order; the shape is one too,
``B=1 N=64``. What was not measured is an empty cell, and bytes are whole numbers. A spreadsheet
computes a cell that begins with ``=``, ``+``, ``-`` or ``@``, and what is in a node id may be
anybody's: such a text gets an apostrophe before it, as does one that begins with an apostrophe, so
that to take one away again gives back what there was. Numbers never do.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from ..budgets.verdict import Outcome
from .record import Record
from .summary import Summary

_NESTED: Final = frozenset({"held", "timeline", "growth"})

#: The names in the first line.
COLUMNS: Final = tuple(part.name for part in fields(Record) if part.name not in _NESTED)

_COMPUTED: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")


def render(summary: Summary, environment: Mapping[str, Any]) -> str:
    """The file's text; lines sorted by test and region. No column tells of the environment."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(COLUMNS)
    for row in summary.records:
        writer.writerow([_cell(getattr(row, name)) for name in COLUMNS])
    return text.getvalue()


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else ""
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, Outcome):
        return value.value
    if isinstance(value, Mapping):
        value = " ".join(f"{name}={size}" for name, size in value.items())
    text = str(value)
    return f"'{text}" if text.startswith(_COMPUTED) else text
