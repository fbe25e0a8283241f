"""The table in the terminal, as wide as the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

from ..units import printable
from . import cells
from .record import Record
from .summary import Summary
from .terminal import COLOURS


class Line(NamedTuple):
    """A line, of which the end has a colour."""

    text: str
    outcome: str = ""
    colour: str = ""
    """A colour of pytest's terminal writer; empty for none."""


class _Column(NamedTuple):
    head: str
    align: str
    texts: list[str]

    @property
    def width(self) -> int:
        return max(map(len, [self.head, *self.texts]))

    @property
    def says_nothing(self) -> bool:
        return not any(self.texts)


_GAP: Final = 2  # between columns
#: The fewest characters of a test's name, for which other columns are left out.
_LEAST_NAME: Final = 24
#: The most, where the width is not limited; and of a contract.
_MOST_NAME: Final = 64
_MOST_BUDGET: Final = 28
#: What a table that is too wide lacks first.
_LEFT_OUT: Final = ("shape", "backend", "used %", "Δ baseline")


def render_table(summary: Summary, width: int = 0) -> list[Line]:
    """Returns the lines of the table, at most ``width`` characters wide; 0 means no limit.

    A narrow table lacks columns, and then cuts the tests' names. A backend that all rows have in
    common stands under a table that lacks its column.
    """
    rows = summary.by_share
    found = [
        column._replace(texts=[*map(printable, column.texts)])  # a merged file may be a stranger's
        for column in _columns(rows)
    ]
    columns, left_out = _fitting(found, width)
    test = columns[0]
    room = _MOST_NAME
    if width:
        room = max(width - sum(_GAP + column.width for column in columns[1:]), len(test.head), 1)
    columns[0] = test._replace(texts=[_shortened(name, room) for name in test.texts])
    widths = [column.width for column in columns]
    lines = [_line([column.head for column in columns], columns, widths)]
    lines.append(Line("  ".join("-" * width for width in widths)))
    for texts in zip(*(column.texts for column in columns), strict=True):
        lines.append(_line(texts, columns, widths))
    places = {*left_out.get("backend", ())} - {""}
    if len(places) == 1:
        lines.append(Line(f"all on {places.pop()}"))
    return lines


def _columns(rows: Sequence[Record]) -> Iterator[_Column]:
    folders = [row.nodeid.partition("::")[0].split("/")[:-1] for row in rows]
    shared = takewhile(lambda level: len(set(level)) == 1, zip(*folders, strict=False))
    prefix = "".join(f"{level[0]}/" for level in shared)
    yield _Column("test", "<", [row.name.removeprefix(prefix) for row in rows])
    yield _Column("shape", "<", [cells.shape(row) for row in rows])
    yield _Column("backend", "<", [cells.backend(row) for row in rows])
    yield _Column("budget", ">", [_cut(cells.budget(row), _MOST_BUDGET) for row in rows])
    yield _Column("peak", ">", [cells.peak(row) for row in rows])
    yield _Column("used %", ">", [cells.percent(row) for row in rows])
    if any(row.baseline_state or row.baseline_bytes is not None for row in rows):
        yield _Column("Δ baseline", ">", [cells.change(row) for row in rows])
    yield _Column("outcome", "<", [cells.outcome(row) for row in rows])


def _fitting(columns: list[_Column], width: int) -> tuple[list[_Column], dict[str, list[str]]]:
    """Returns the columns that leave room for the names, and the texts of the others."""
    left_out: dict[str, list[str]] = {}
    for head in _LEFT_OUT:
        names = min(columns[0].width, _LEAST_NAME)
        if not width or names + sum(_GAP + column.width for column in columns[1:]) <= width:
            break
        left_out |= {column.head: column.texts for column in columns if column.head == head}
        columns = [column for column in columns if column.head != head]
    return columns, left_out


def _line(texts: Sequence[str], columns: Sequence[_Column], widths: Sequence[int]) -> Line:
    aligned = [
        f"{text:{column.align}{width}}"
        for text, column, width in zip(texts, columns, widths, strict=True)
    ]
    outcome = texts[-1]
    return Line("  ".join([*aligned[:-1], ""]), outcome, dict(COLOURS).get(outcome, ""))


_ID: Final = re.compile(r"(.*?)(\[.*)", re.DOTALL)


def _shortened(name: str, width: int) -> str:
    """Returns a name without its end; the parameters in brackets stay if they are short."""
    if len(name) <= width:
        return name
    match = _ID.fullmatch(name)
    if match and len(match[2]) <= width // 2:
        return _cut(match[1], width - len(match[2])) + match[2]
    return _cut(name, width)


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
