"""The Markdown: a verdict and one table for a pull request's comment, failures first.

Names and reasons are code, so GitHub reads no markup, mention or reference in them.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

from ..budgets import held_table
from ..budgets.verdict import Outcome
from ..units import excerpt, format_count, format_size
from . import cells
from .record import Record
from .summary import Summary

#: The most characters of a comment on GitHub. We count bytes of UTF-8, which are never fewer.
LIMIT: Final = 65_536

_NAME: Final = 240
_REASON: Final = 160
_NOTES: Final = 400  # room for the notes on rows that were left out


def render(summary: Summary, environment: Mapping[str, Any]) -> str:
    """Returns the text of the comment; it omits the environment."""
    return bounded(summary, LIMIT)


def bounded(summary: Summary, limit: int) -> str:
    """Returns at most ``limit`` bytes of the comment, with a note on the rows that were left out.

    Failures come first, with their tensors; the last rows are left out first.
    """
    rows = cells.failures_first(summary)
    head = [verdict(summary), ""]
    if rows:
        changes = any(row.baseline_bytes is not None for row in rows)
        head += [*_header(changes)]
        table = [_line(row, changes) for row in rows]
        folded = [_folded(row) for row in rows if row.fails]
        notes = [*_notes(summary)]
        room = limit - size(head) - size(notes) - _NOTES
        folded_shown = folded[: fitting(folded, max(room // 2, room - size(table)))]
        shown = table[: fitting(table, room - size(folded_shown))]
        notes += _left_out(rows[len(shown) :], len(folded) - len(folded_shown))
        head += [*shown, "", *notes, *folded_shown]
    text = "\n".join(head).rstrip("\n")
    return f"{text}\n" if size([text]) <= limit else ""


def verdict(summary: Summary) -> str:
    """Returns the first line: how many budgets were kept."""
    over, within = summary.count(Outcome.OVER), summary.count(Outcome.WITHIN)
    unproven = summary.count(Outcome.NOT_ENFORCED)
    budgets = format_count(summary.budgets, "memory budget")
    others = f", {unproven} not enforced" if over or unproven else ""
    if summary.expected:
        others += f", {format_count(summary.expected, 'expected failure')}"
    if over:
        return f"**{over} of {budgets} exceeded**, {within} kept{others}."
    if others:
        return f"**{within} of {budgets} kept**{others}."
    return f"**{budgets} kept.**" if within else "No memory budget was held."


def code(text: str, limit: int = _NAME) -> str:
    """Returns a text as code on one line of a table's cell; a longer text loses its middle."""
    half = limit // 2
    short = text if len(text) <= limit else f"{text[:half]}…{text[half + 1 - limit :]}"
    line = excerpt(short, limit)
    if not line.strip():
        return ""
    longest = max((len(run) for run in re.findall("`+", line)), default=0)
    fence = "`" * (longest + 1)
    # Markdown removes one space on each side.
    space = " " if line[0] in "` " or line[-1] in "` " else ""
    return f"{fence}{space}{line}{space}{fence}".replace("|", "\\|")


def _header(changes: bool) -> Iterator[str]:
    # Not by tabulate, which pads each cell to its column: a third fewer rows fit into a comment.
    names = ["test", "shape", "backend", "budget", "peak", "used %"]
    names += ["Δ baseline", "outcome"] if changes else ["outcome"]
    yield f"| {' | '.join(names)} |"
    yield "|" + "|".join("---" if name in _LEFT else "--:" for name in names) + "|"


_LEFT: Final = ("test", "shape", "backend", "outcome")


def _line(row: Record, changes: bool) -> str:
    line = [code(row.name), code(cells.shape(row)), code(cells.backend(row))]
    line.append(code(row.budget) if row.is_contract else cells.budget(row))
    line += [cells.peak(row), cells.percent(row)]
    line += [cells.change(row)] if changes else []
    outcome = cells.outcome(row)
    if row.fails:
        outcome = f"**{outcome}**"
    elif reason := code(row.reason, _REASON):
        outcome += f": {reason}"
    return "| " + " | ".join([*line, outcome]) + " |"


def _folded(row: Record) -> str:
    """Returns the tensors of a failing test as HTML without empty lines, so it has no Markdown."""
    moment = "end" if row.metric == "retained" else "peak"
    lines = [*cells.explanation(row), *held_table.lines(row.held, moment)]
    inside = "\n".join(html.escape(excerpt(line, _NAME)) for line in lines)
    title = f"<code>{html.escape(excerpt(row.name, _NAME))}</code>"
    reason = f"<code>{html.escape(excerpt(row.reason, _NAME))}</code>"
    return f"<details><summary>{title}: {reason}</summary>\n<pre>\n{inside}\n</pre>\n</details>\n"


def _notes(summary: Summary) -> Iterator[str]:
    highest = summary.highest
    if highest is not None and highest.peak_bytes is not None:
        yield f"Session peak {format_size(highest.peak_bytes)} in {code(highest.name)}."
        yield ""


def _left_out(rows: Sequence[Record], folded: int) -> Iterator[str]:
    if rows:
        counts = Counter(cells.outcome(row) for row in rows)
        counted = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        yield f"{format_count(len(rows), 'more row')} left out: {counted}."
        yield ""
    if folded:
        yield f"The tensors of {format_count(folded, 'more test')} are left out."
        yield ""


def size(lines: Sequence[str]) -> int:
    """Returns the bytes of the lines in UTF-8, with line ends."""
    return sum(len(line.encode("utf-8", "backslashreplace")) + 1 for line in lines)


def fitting(lines: Sequence[str], room: int) -> int:
    """Returns the number of lines that fit into ``room`` bytes."""
    return sum(nbytes <= room for nbytes in accumulate(size([line]) for line in lines))
