"""The CSV file: one line for each result, as RFC 4180 defines it, for spreadsheets.

The columns are the fields of a JSON result that have one value each, in its order; the shape is
``B=1 N=64``. The cell of a value that was not measured is empty, and bytes are whole numbers.

A spreadsheet computes a cell that begins with ``=``, ``+``, ``-`` or ``@``, and a node id may hold
any text. So a text that begins with one of these, or with an apostrophe, gets an apostrophe in
front; a reader that removes it has the original text. Numbers never get one. A NUL, which Python
3.10 cannot write, is ␀.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final

from ..budgets.verdict import Outcome
from ..units import format_values
from .record import Record
from .summary import Summary

_NESTED: Final = frozenset({"explanation", "held", "timeline", "growth"})

#: The names in the first line.
COLUMNS: Final = tuple(part.name for part in fields(Record) if part.name not in _NESTED)

_COMPUTED: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠", "'")


def render(summary: Summary, environment: Mapping[str, Any]) -> str:
    """Returns the text of the file, sorted by test and region; it omits the environment."""
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
        value = format_values(value)
    text = str(value).replace("\0", "␀")
    return f"'{text}" if text.startswith(_COMPUTED) else text
