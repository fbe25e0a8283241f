"""The table of ``attnmem bisect --all``: the peaks of every commit."""

from __future__ import annotations

from ..bisection.bisection import Result
from ..bisection.search import State
from ..commits.warm_process import named
from ..report import cells
from ..units import common_unit, excerpt

#: The most tests that have a column; JSON has all.
_COLUMNS = 4


def table(found: Result) -> list[str]:
    """Returns a line for each commit from good to bad, with the tests that tell it."""
    from tabulate import tabulate

    rows = [*found.criterion.levels][:_COLUMNS]
    values = [
        value
        for commit in found.commits
        for row in rows
        if commit.sha in found.samples
        and (record := found.samples[commit.sha].rows.get(row)) is not None
        and (value := record.value)
    ]
    unit = common_unit(values)
    lines = []
    for number, commit in enumerate(found.commits):
        state = found.found.states.get(number)
        sample = found.samples.get(commit.sha)
        records = [sample.rows.get(row) if sample else None for row in rows]
        sizes = [cells.size(record.value if record else None, unit) for record in records]
        mark = "first bad" if number == found.found.bad else state.value if state else ""
        if state is State.SKIPPED:
            sizes = ["-"] * len(rows)
        title = excerpt(commit.subject, 40)
        lines.append([commit.short, commit.date, excerpt(commit.author, 20), *sizes, mark, title])
    tests = [f"[{number}] {unit}" for number in range(1, len(rows) + 1)]
    drawn = tabulate(
        lines,
        headers=["commit", "date", "author", *tests, "", "title"],
        colalign=["left"] * 3 + ["right"] * len(rows) + ["left"] * 2,
        disable_numparse=True,
    )
    legend = [f"[{number}] {named(row)}" for number, row in enumerate(rows, 1)]
    more = len(found.criterion.levels) - len(rows)
    return [*drawn.splitlines(), *legend, *([f"and {more} more tests, in --json"] if more else [])]
