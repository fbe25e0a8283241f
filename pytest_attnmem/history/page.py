"""The page of a history: a line for each row over commits or dates, and the list of steps."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import groupby
from typing import Any

from ..report.html import document
from .project_history import ProjectHistory, Step
from .text import causes, change, fate, gap_lines, measured_count, notes, sizes, table

#: The parts of the page, in their order; those of the other page, and its own.
STYLES = ("page", "chart", "history")
SCRIPTS = ("text", "chart", "theme", "history")


def page(history: ProjectHistory) -> str:
    """Returns the page, one file that loads nothing else; names and subjects are text in it."""
    return document(
        "history",
        STYLES,
        SCRIPTS,
        _data(history),
        title=escape(history.name),
        rows=escape("\n".join(table(history))),
    )


def _data(history: ProjectHistory) -> dict[str, Any]:
    place = {point.sha: number for number, point in enumerate(history.points)}
    rows = history.rows
    return {
        "name": history.name,
        "counts": measured_count(history),
        "facts": [*history.facts.items()],
        "commits": [[one.short, one.date, one.author, one.subject] for one in history.points],
        "rows": [_row(row, history) for row in rows],
        "steps": [_step(step, rows, place, history) for step in history.steps],
        "gaps": gap_lines(history),
        "notes": [*notes(history), _WARNING],
    }


_WARNING = (
    "Each commit ran its own code, as its tests would, in the account of whoever ran this: a"
    " history is as trustworthy as its commits."
)


def _row(row: str, history: ProjectHistory) -> dict[str, Any]:
    runs = [*_runs(row, history)]
    gaps = {
        first: history.points[first].measured.gap(row) for first, value in runs if value is None
    }
    return {"name": row, "runs": runs, "gaps": gaps}


def _runs(row: str, history: ProjectHistory) -> Iterator[tuple[int, int | None]]:
    """Yields the first commit of each run of equal bytes, and the bytes; None in a gap."""
    values = [point.measured.values.get(row) for point in history.points]
    for value, some in groupby(enumerate(values), key=lambda one: one[1]):
        yield next(some)[0], value


def _step(
    step: Step, rows: list[str], place: dict[str, int], history: ProjectHistory
) -> dict[str, Any]:
    share = round(100 * step.delta / step.before, 3) if step.before else None
    old_and_new, delta = sizes(step)
    return {
        "row": rows.index(step.row),
        "at": place[step.sha],
        "before": step.before,
        "after": step.after,
        "share": share,
        "text": change(step),
        "sizes": old_and_new,
        "delta": delta,
        "fate": fate(step, history),
        "lines": causes(step),
    }
