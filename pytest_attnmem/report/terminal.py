"""The summary line, the reasons and the table in the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from ..budgets.verdict import Outcome
from ..units import excerpt, format_runs, format_size, printable
from . import cells
from .record import Record
from .summary import Summary, summarise

#: The reasons that are shown: as many as most of the rows have, within these limits.
_FEWEST, _MOST = 3, 10
_MAX_REASON = 160  # the JSON has it whole


def render_line(summary: Summary, hint: bool) -> str:
    """Returns the line that ends a session with budgets."""
    counts = ", ".join(f"{count} {name}" for name, count in summary.counts.items())
    plural = "" if summary.budgets == 1 else "s"
    states = ", ".join(f"{count} {state}" for state, count in summary.states.items())
    compared = f"; baseline: {states}" if states else ""
    more = " (--attnmem-report for the table)" if hint else ""
    return f"attnmem: {summary.budgets} budget{plural}, {counts}{compared}{more}"


def colour_of(summary: Summary) -> str:
    """Returns the colour of the line: that of the worst outcome; none without a budget."""
    for outcome, colour in COLOURS:
        if summary.counts.get(outcome) or (outcome == EXPECTED and summary.expected):
            return colour
    return ""


#: The name of an outcome that no count has; it is in the plural there.
EXPECTED = "expected failure"
#: Outcomes and their colours, the worst first.
COLOURS = (("over", "red"), ("not enforced", "yellow"), (EXPECTED, "yellow"), ("within", "green"))


def render_reasons(summary: Summary) -> list[str]:
    """Returns lines with the reasons why budgets were not enforced, the most frequent first."""
    reasons = [*summary.reasons.items()]
    lines: list[str] = []
    left = sum(summary.reasons.values())
    tenth = left // 10
    for place, (reason, count) in enumerate(reasons):
        others = len(reasons) - place
        if others > 1 and (place >= _MOST or (place >= _FEWEST and left <= tenth)):
            return [
                *lines,
                f"  {left} not enforced for {others} other reasons; --attnmem-report lists each",
            ]
        lines.append(f"  {count} not enforced: {excerpt(reason, _MAX_REASON)}")
        left -= count
    return lines


def render_notes(summary: Summary) -> list[str]:
    """Returns the session's peak, the workspaces and the rows with reasons."""
    lines = []
    highest = summary.highest
    if highest is not None and highest.peak_bytes is not None:
        lines.append(f"session peak  {format_size(highest.peak_bytes)} in {highest.name}")
    source = "from library warm-up, not counted in any test"
    lines += [
        f"workspace     {format_size(size)} on {device}, {source}"
        for device, size in summary.workspaces.items()
    ]
    lines += [
        f"{cells.outcome(row)}  {row.name}: {excerpt(row.reason, _MAX_REASON)}"
        for row in summary.records
        if row.reason and (row.outcome is not Outcome.OVER or row.out_of_memory)
    ]
    return [*map(printable, lines)]  # a merged file may be a stranger's


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


#: The rank in the parameters of a test, as ``plugin.ranks`` writes it.
_RANK: Final = re.compile(r"(.*\[(?:[^\]]*-)?rank)(\d+)([-\]].*)", re.DOTALL)
_SYMBOL: Final = "rank"

#: A row without its rank, and its ranks, by what the table shows of it.
_Rows = dict[tuple[object, ...], tuple[Record, list[int]]]


def with_equal_ranks_together(summary: Summary) -> Summary:
    """Returns the summary with one row for equal ranks; rows of other tests are as they were."""
    others, equal = list[Record](), _Rows()
    for row in summary.records:
        found = _RANK.fullmatch(row.nodeid)
        if found is None or row.shape.get(_SYMBOL) != int(found[2]):
            others.append(row)
            continue
        before, rank, after = found.groups()
        shape = {name: value for name, value in row.shape.items() if name != _SYMBOL}
        row = replace(row, shape=shape)
        _, ranks = equal.setdefault((before, after, *_shown(row)), (row, []))
        ranks.append(int(rank))
    folded = (
        replace(row, nodeid=f"{before}{format_runs(sorted(ranks), '..', ',')}{after}")
        for (before, after, *_), (row, ranks) in equal.items()
    )
    return summarise([*others, *folded])


def _shown(row: Record) -> tuple[object, ...]:
    """Returns what the table and the notes show of a row, but its name."""
    measured = (row.metric, row.value, row.backend, row.device, row.out_of_memory)
    judged = (row.outcome, row.expected, row.reason, row.budget, row.limit_bytes)
    baseline = (row.baseline_bytes, row.baseline_state, row.baseline_torch)
    return (row.region, *sorted(row.shape.items()), *measured, *judged, *baseline)
