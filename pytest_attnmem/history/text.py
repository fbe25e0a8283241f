"""A history as text: the rows, their steps with causes, and the gaps with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import date
from itertools import groupby, pairwise
from typing import Final

from ..report.cells import aligned
from ..units import common_unit, excerpt, format_count, format_distinct, format_in
from .project_history import ProjectHistory, Step, TensorChange

#: The most tensors of a step, and reasons of gaps, that are listed.
_TENSORS: Final = 4
_REASONS: Final = 12


def table(history: ProjectHistory) -> list[str]:
    """Returns the lines for a terminal."""
    lines = _head(history, "simple")
    for commit, steps in _by_commit(history):
        lines += ["", commit]
        for step in steps:
            lines.append(f"  {step.row}  {change(step)}{fate(step, history)}")
            lines += [f"    {line}" for line in causes(step)]
    return [*lines, *_end(history)]


def markdown(history: ProjectHistory) -> list[str]:
    """Returns the lines of a report in Markdown."""
    lines = _head(history, "pipe")
    for commit, steps in _by_commit(history):
        lines += ["", f"**{_escaped(commit)}**", ""]
        for step in steps:
            lines.append(f"- `{step.row}` {change(step)}{fate(step, history)}")
            lines += [f"    - `{line}`" for line in causes(step)]
    return [*lines, *_end(history)]


def _head(history: ProjectHistory, form: str) -> list[str]:
    """Returns the summary, and a table of rows: their lines, first and last bytes, and steps."""
    rows = []
    for row in history.rows:
        sizes = [one.measured.values[row] for one in history.points if row in one.measured.values]
        unit = common_unit(sizes)
        steps = sum(step.row == row for step in history.steps)
        four = (sizes[0], sizes[-1], min(sizes), max(sizes))
        texts = [f"{format_in(size, unit)} {unit}" for size in four]
        rows.append([row, sparkline(sizes), *texts, str(steps)])
    heads = ["row", "over commits", "first", "last", "least", "most", "steps"]
    return [summary(history), "", *aligned(rows, heads, "llrrrrr", form)]


def sparkline(sizes: Sequence[int]) -> str:
    """Returns ``▁▁▅█▂``: the largest of each of up to twenty equal parts, from the least up."""
    count = min(len(sizes), _WIDTH)
    ends = [len(sizes) * part // count for part in range(count + 1)]
    parts = [max(sizes[start:end]) for start, end in pairwise(ends)]
    least, span = min(parts), max(parts) - min(parts)
    last = len(_BARS) - 1
    return "".join(_BARS[-(-(part - least) * last // span) if span else 0] for part in parts)


_BARS: Final = "▁▂▃▄▅▆▇█"
_WIDTH: Final = 20


def summary(history: ProjectHistory) -> str:
    """Returns ``x-transformers: 663 of 680 commits measured; simulated:H100, torch 2.13.0``."""
    facts = history.facts
    where = f"{facts.get('backend', '')}, torch {facts.get('torch', '')}, {facts.get('tests', '')}"
    return f"{history.name}: {measured_count(history)}; {where}"


def measured_count(history: ProjectHistory) -> str:
    """Returns ``663 of 680 commits measured``."""
    known = sum(bool(point.measured.values) for point in history.points)
    return f"{known} of {len(history.points)} commits measured"


def _by_commit(history: ProjectHistory) -> Iterator[tuple[str, list[Step]]]:
    for sha, steps in groupby(history.steps, key=lambda step: step.sha):
        yield head(sha, history), [*steps]


def head(sha: str, history: ProjectHistory) -> str:
    """Returns ``746aebe2a1 2021-07-18 Ada: Keep the scores``."""
    point = history.point(sha)
    author, subject = excerpt(point.author, 40), excerpt(point.subject, 100)
    return f"{point.short} {point.date} {author}: {subject}"


def change(step: Step) -> str:
    """Returns ``62.2 MiB → 82.4 MiB (+20,185,088 B, +32.4 %)``."""
    return "{} ({})".format(*sizes(step))


def sizes(step: Step) -> tuple[str, str]:
    """Returns ``62.2 MiB → 82.4 MiB``, and the difference."""
    old, new = format_distinct(step.before, step.after)
    share = f", {100 * step.delta / step.before:+.1f} %" if step.before else ""
    return f"{old} → {new}", f"{step.delta:+,} B{share}"


def fate(step: Step, history: ProjectHistory) -> str:
    """Returns how long a growth lasted, and what is not sure about the step."""
    told = []
    if step.ended_by:
        end = history.point(step.ended_by)
        begin = date.fromisoformat(history.point(step.sha).date)
        days = (date.fromisoformat(end.date) - begin).days
        told.append(f"undone by {end.short} after {format_count(days, 'day')}")
    elif step.delta > 0:
        told.append("still there")
    if step.gaps:
        before = "the one" if len(step.gaps) == 1 else f"one of {len(step.gaps)}"
        told.append(f"here or in {before} before it that cannot be measured")
    if step.cause is None:
        told.append("not confirmed")
    elif not step.is_confirmed:
        told.append(f"not confirmed: alone it is {step.cause.before} B → {step.cause.after} B")
    return "".join(f"; {one}" for one in told)


def causes(step: Step) -> list[str]:
    """Returns the lines of a step: its term if it is proved, else the tensors, and who holds them.

    The term names all tensors that are more and less.
    """
    cause = step.cause
    if cause is None:
        return []
    if cause.change:
        return [f"{cause.change}{_held_by(cause.tensors)}"]
    largest = sorted(cause.tensors, key=lambda one: -abs(one.delta_bytes))[:_TENSORS]
    return [f"{tensor.text}{_held_by([tensor])}" for tensor in largest]


def _held_by(tensors: Sequence[TensorChange]) -> str:
    holders = dict.fromkeys(tensor.holder for tensor in tensors if tensor.holder)
    return f"  held by {', '.join(holders)}" if holders else ""


def reasons(history: ProjectHistory) -> list[tuple[str, int]]:
    """Returns why commits have no number at all, and how many, the most first."""
    found = Counter(point.measured.gap("") for point in history.points if not point.measured.values)
    return found.most_common()


def row_gaps(history: ProjectHistory) -> list[tuple[str, str, int]]:
    """Returns why a row has no number where others have one, and at how many commits."""
    found: Counter[tuple[str, str]] = Counter()
    rows = history.rows
    for point in history.points:
        known = point.measured.values
        others = dict.fromkeys((*rows, *filter(None, point.measured.gaps)))
        found.update((row, point.measured.gap(row)) for row in others if known and row not in known)
    return [(row, reason, count) for (row, reason), count in found.most_common()]


def gap_lines(history: ProjectHistory) -> list[tuple[int, str]]:
    """Returns the reasons of gaps, with how many commits each has, the most first."""
    whole = [(count, excerpt(why, 160)) for why, count in reasons(history)]
    rows = [(count, f"{row}: {excerpt(why, 140)}") for row, why, count in row_gaps(history)]
    return whole + rows


def notes(history: ProjectHistory) -> list[str]:
    """Returns a line about what stood in for something that is not here."""
    used = [f"{name} ({kind})" for name, kind in sorted(history.used.items())]
    return [f"not here as the commits know it: {', '.join(used)}"] if used else []


def _end(history: ProjectHistory) -> list[str]:
    lines = [f"  {count} × {why}" for count, why in gap_lines(history)]
    more = [f"  and {len(lines) - _REASONS} more reasons"] if len(lines) > _REASONS else []
    gaps = ["", "gaps:", *lines[:_REASONS], *more] if lines else []
    return [*gaps, *(line for note in notes(history) for line in ("", note))]


def _escaped(text: str) -> str:
    return "".join(f"\\{sign}" if sign in "\\`*_[]<>|" else sign for sign in text)
