"""The summary line and the table in the terminal."""

from __future__ import annotations

from itertools import takewhile

from ..budgets.verdict import Outcome
from ..units import excerpt, format_size
from . import cells
from .record import Record
from .summary import Summary


def render_line(summary: Summary, hint: bool) -> str:
    """Returns the line that ends a session with budgets."""
    counts = ", ".join(f"{count} {name}" for name, count in summary.counts.items())
    plural = "" if summary.budgets == 1 else "s"
    states = ", ".join(f"{count} {state}" for state, count in summary.states.items())
    compared = f"; baseline: {states}" if states else ""
    more = " (--attnmem-report for the table)" if hint else ""
    return f"attnmem: {summary.budgets} budget{plural}, {counts}{compared}{more}"


def render_reasons(summary: Summary) -> list[str]:
    """Returns lines with the reasons why budgets were not enforced, the most frequent first."""
    reasons = [*summary.reasons.items()]
    lines = [
        f"  {count} not enforced: {excerpt(reason, _MAX_REASON)}"
        for reason, count in reasons[:_MAX_REASONS]
    ]
    others = reasons[_MAX_REASONS:]
    if others:
        lines.append(f"  {sum(count for _, count in others)} not enforced for other reasons")
    return lines


def render_table(summary: Summary) -> list[str]:
    """Returns the table, then the session's peak, the workspaces and the rows with reasons."""
    from tabulate import tabulate

    rows = summary.by_share
    unit = cells.unit(rows)
    folders = [row.nodeid.partition("::")[0].split("/")[:-1] for row in rows]
    shared = takewhile(lambda level: len(set(level)) == 1, zip(*folders, strict=False))
    prefix = "".join(f"{level[0]}/" for level in shared)
    headers = ["test", "shape", "backend", f"budget {unit}", f"peak {unit}", "used %"]
    align = ["left", "left", "left", "right", "right", "right"]
    lines = [_cells(row, unit, prefix) for row in rows]
    if any(row.baseline_state or row.baseline_bytes is not None for row in rows):
        headers, align = [*headers, "Δ baseline"], [*align, "right"]
        lines = [[*line, cells.change(row)] for line, row in zip(lines, rows, strict=True)]
    table = tabulate(
        [[*line, cells.outcome(row)] for line, row in zip(lines, rows, strict=True)],
        headers=[*headers, "outcome"],
        colalign=[*align, "left"] if lines else None,  # tabulate 0.9 aligns no missing columns
        disable_numparse=True,
    )
    return [*table.splitlines(), "", *_notes(summary)]


_MAX_REASONS = 3
_MAX_REASON = 160  # the JSON has it whole


def _cells(row: Record, unit: str, prefix: str) -> list[str]:
    return [
        _shortened(row.name.removeprefix(prefix)),
        cells.shape(row),
        cells.backend(row),
        cells.budget(row, unit),
        cells.peak(row, unit),
        cells.percent(row),
    ]


def _notes(summary: Summary) -> list[str]:
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
    return lines


def _shortened(name: str, width: int = 64) -> str:
    return name if len(name) <= width else f"…{name[1 - width :]}"
