"""The summary line and the table."""

from __future__ import annotations

from itertools import takewhile

from ..record import Record
from ..shape import DEFAULTS
from ..summary import Summary, share
from ..units import common_unit, excerpt, format_in, format_size
from ..verdict import Outcome


def render_line(summary: Summary, hint: bool) -> str:
    """The one line that a session with budgets ends with."""
    counts = ", ".join(f"{summary.count(outcome)} {outcome.value}" for outcome in _ORDER)
    plural = "" if summary.budgets == 1 else "s"
    more = " (--attnmem-report for the table)" if hint else ""
    return f"attnmem: {summary.budgets} budget{plural}, {counts}{more}"


def render_table(summary: Summary) -> list[str]:
    """The table, then the session's own peak, the workspaces and what was not enforced."""
    from tabulate import tabulate

    rows = summary.by_share
    # The typical row decides the unit: by the largest, most of the others would read 0.0.
    sizes = sorted(size for row in rows for size in (row.limit_bytes, row.value) if size)
    unit = common_unit(sizes[len(sizes) // 2 :][:1])
    folders = [row.nodeid.partition("::")[0].split("/")[:-1] for row in rows]
    shared = takewhile(lambda level: len(set(level)) == 1, zip(*folders, strict=False))
    prefix = "".join(f"{level[0]}/" for level in shared)
    headers = ["test", "shape", "backend", f"budget {unit}", f"peak {unit}", "used %"]
    align = ["left", "left", "left", "right", "right", "right"]
    cells = [_cells(row, unit, prefix) for row in rows]
    if any(row.baseline_bytes is not None for row in rows):
        headers, align = [*headers, "Δ baseline"], [*align, "right"]
        cells = [[*line, _change(row)] for line, row in zip(cells, rows, strict=True)]
    table = tabulate(
        [[*line, _outcome(row)] for line, row in zip(cells, rows, strict=True)],
        headers=[*headers, "outcome"],
        colalign=[*align, "left"],
        disable_numparse=True,
    )
    return [*table.splitlines(), "", *_notes(summary)]


_ORDER = (Outcome.WITHIN, Outcome.OVER, Outcome.NOT_ENFORCED)
_MAX_REASON = 160  # the JSON has it whole


def _cells(row: Record, unit: str, prefix: str) -> list[str]:
    metric = "" if row.metric == "peak" else f" ({row.metric})"
    return [
        _shortened(row.name.removeprefix(prefix)),
        _shape(row),
        row.place,
        row.budget if row.budget.startswith("O(") else _size(row.limit_bytes, unit),
        _size(row.value, unit) + metric,
        _percent(row),
    ]


def _percent(row: Record) -> str:
    used = share(row)
    if used is None:
        return ""
    return f"{float(used * 100):.1f}" if used * 100 <= 999 else ">999"


def _change(row: Record) -> str:
    if row.baseline_bytes is None or row.value is None:
        return ""
    return f"{row.value - row.baseline_bytes:+,} B"


def _outcome(row: Record) -> str:
    if row.outcome is not None:
        return row.outcome.value
    return "not measured" if row.reason else "measured"


def _notes(summary: Summary) -> list[str]:
    lines = []
    highest = summary.highest
    if highest is not None and highest.peak_bytes is not None:
        lines.append(f"session peak  {format_size(highest.peak_bytes)} in {highest.name}")
    lines += [
        f"workspace     {format_size(size)} on {device}, primed once and part of no result"
        for device, size in summary.workspaces.items()
    ]
    lines += [
        f"{_outcome(row)}  {row.name}: {excerpt(row.reason, _MAX_REASON)}"
        for row in summary.records
        if row.outcome is Outcome.NOT_ENFORCED or (row.outcome is None and row.reason)
    ]
    return lines


def _size(size: int | None, unit: str) -> str:
    if size is None:
        return "-"
    shown = format_in(size, unit)
    return f"<{shown[:-1]}1" if size > 0 and not shown.strip("0.") else shown


def _shape(row: Record) -> str:
    """The symbols that say something of their own: M only where it is not N."""
    return " ".join(
        f"{name}={value}"
        for name, value in row.shape.items()
        if value != row.shape.get(DEFAULTS.get(name, ""))
    )


def _shortened(name: str, width: int = 64) -> str:
    return name if len(name) <= width else f"…{name[1 - width :]}"
