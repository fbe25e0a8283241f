"""The table in the terminal, as wide as the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from ..units import printable
from . import cells
from .record import Record
from .summary import Summary
from .terminal import COLOURS


class Line(NamedTuple):
    """A line, of which one word has a colour."""

    text: str
    outcome: str = ""
    colour: str = ""
    """A colour of pytest's terminal writer; empty for none."""
    rest: str = ""


class _Column(NamedTuple):
    head: str
    align: str
    texts: list[str]

    @property
    def width(self) -> int:
        return max(map(len, [self.head, *self.texts]))


_GAP: Final = 2  # between columns
#: The fewest characters of a test's name, for which other columns are left out.
_LEAST_NAME: Final = 24
#: The most of a contract.
_MOST_BUDGET: Final = 28
#: What a table that is too wide lacks first.
_LEFT_OUT: Final = ("shape", "backend", "used %", "Δ baseline")


def render_table(summary: Summary, width: int = 0) -> list[Line]:
    """Returns the lines of the table, ``width`` characters wide; 0 means no limit.

    The tests' names are whole, so that they can be pasted. Where they are too long, they are the
    last column, which the terminal folds, and a narrow table lacks columns before it. A backend
    that all rows have in common stands under a table that lacks its column.
    """
    rows = summary.by_share
    found = [
        column._replace(texts=[*map(printable, column.texts)])  # a merged file may be a stranger's
        for column in _columns(rows)
    ]
    columns, left_out = _fitting(found, width)
    if width and _width(columns) > width:
        columns = [*columns[1:], columns[0]]
    widths = [column.width for column in columns]
    lines = [_line([column.head for column in columns], columns, widths)]
    room = max(width - _width(columns[:-1]) - _GAP, len(columns[-1].head)) if width else widths[-1]
    ruled = [*widths[:-1], min(widths[-1], room)]
    lines.append(Line("  ".join("-" * wide for wide in ruled)))
    for texts in zip(*(column.texts for column in columns), strict=True):
        lines.append(_line(texts, columns, widths))
    places = {*left_out.get("backend", ())} - {""}
    if len(places) == 1:
        lines.append(Line(f"all on {places.pop()}"))
    return lines


def _columns(rows: Sequence[Record]) -> Iterator[_Column]:
    yield _Column("test", "<", [row.name for row in rows])
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
        name = columns[0]._replace(texts=["-" * min(columns[0].width, _LEAST_NAME)])
        if not width or _width([name, *columns[1:]]) <= width:
            break
        left_out |= {column.head: column.texts for column in columns if column.head == head}
        columns = [column for column in columns if column.head != head]
    return columns, left_out


def _line(texts: Sequence[str], columns: Sequence[_Column], widths: Sequence[int]) -> Line:
    aligned = [
        f"{text:{column.align}{width}}"
        for text, column, width in zip(texts, columns, widths, strict=True)
    ]
    place = next(number for number, column in enumerate(columns) if column.head == "outcome")
    outcome, after = texts[place], aligned[place + 1 :]
    gap = " " * (widths[place] - len(outcome) + _GAP) if after else ""
    colour = dict(COLOURS).get(outcome, "")
    return Line(
        "  ".join([*aligned[:place], ""]), outcome, colour, (gap + "  ".join(after)).rstrip()
    )


def _width(columns: Sequence[_Column]) -> int:
    return sum(_GAP + column.width for column in columns) - _GAP


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
