"""The summary line and the reasons in the terminal; :mod:`.terminal_table` has the table."""

from __future__ import annotations

from ..budgets.verdict import Outcome
from ..units import excerpt, format_size, printable
from . import cells
from .summary import Summary

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
