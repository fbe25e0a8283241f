"""Compare the measurements of two sessions, test by test."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..baselines.entries import row_name
from ..budgets.tolerance import parse_tolerance
from ..report import cells, write
from ..report.cells import aligned
from ..report.held_changes import held_changes, term
from ..report.json import load
from ..report.markdown import LIMIT, code, fitting, size
from ..report.record import Record
from ..report.session_diff import (
    Change,
    ChangeKind,
    Differences,
    Upgrade,
    by_operator,
    differences,
    upgrade,
)
from ..units import common_unit, excerpt, format_change, format_count, format_size, printable
from .terminal import progress


def add_arguments(parser: ArgumentParser) -> None:
    """``base.json head.json --fail-on 2%+1MiB --markdown``."""
    parser.epilog = (
        "The exit code is 1 if a test grew by more than the tolerance, exceeds its budget now, or"
        " was measured before and is now missing or not measured. Tests measured in another place"
        " are listed but not compared. If the sessions ran on two versions of torch, the table has"
        " the changes that the upgrade made; with --attnmem-explain all in both sessions, by"
        " operator."
    )
    parser.add_argument(
        "old", type=Path, metavar="OLD", help="the JSON file of the earlier session"
    )
    parser.add_argument("new", type=Path, metavar="NEW", help="the JSON file of the later session")
    parser.add_argument(
        "--fail-on",
        default="0",
        metavar="T",
        help="allowed growth of a test, such as 2%%+1MiB: it must exceed both (default: 0)",
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print Markdown for a pull request")
    form.add_argument("--json", action="store_true", help="print JSON")


def execute(arguments: Namespace) -> int:
    """Prints the changes; returns 1 if the comparison fails.

    Raises:
        AttnMemError: a file or the tolerance cannot be read, or nothing can be compared.
    """
    with progress("reading the results"):
        old, new = load(arguments.old), load(arguments.new)
        found = differences(old, new, parse_tolerance(arguments.fail_on, "--fail-on"))
    facts, torch = _facts(old[1], new[1]), upgrade(old[1], new[1], found)
    if arguments.json:
        text = json.dumps(to_dict(found, facts, torch), indent=2)
    elif arguments.markdown:
        text = markdown(found, facts, torch)
    else:
        text = "\n".join(table(found, facts, torch))
    write(Path("-"), f"{text}\n")
    return 1 if found.failed else 0


Facts = Mapping[str, tuple[Any, Any]]


def table(found: Differences, facts: Facts, torch: Upgrade | None) -> list[str]:
    """Returns the verdict, then a line for each changed test."""
    unit, lines = _unit(found), [verdict(found), *([_head(found, torch)] if torch else [])]
    if changes := [*_changed(found)]:
        lines.append("")
        rows = [
            [printable(_name(one)), *_numbers(one, unit), _kind(one, excerpt, torch)]
            for one in changes
        ]
        lines += aligned(rows, _headers(unit), "lrrrrl")
        lines.append("")
    lines += [excerpt(line, 200) for line in _environment(facts, torch, str)]
    return lines[:-1] if lines[-1] == "" else lines


def markdown(found: Differences, facts: Facts, torch: Upgrade | None) -> str:
    """Returns a comment for a pull request: the verdict, then as many rows as fit its limit."""
    head, _, counts = verdict(found).partition(":")
    unit, lines = _unit(found), [f"**{head}**:{counts}", ""]
    lines += [f"{_head(found, torch)}.", ""] if torch else []
    environment = [*_environment(facts, torch, code)]
    if changes := [*_changed(found)]:
        lines += [f"| {' | '.join(_headers(unit))} |", "|---|--:|--:|--:|--:|---|"]
        rows = [
            f"| {code(_name(change))} | {' | '.join(_numbers(change, unit))} |"
            f" {'**' * change.fails}{_kind(change, code, torch)}{'**' * change.fails} |"
            for change in changes
        ]
        shown = fitting(rows, LIMIT - size([*lines, *environment]) - 100)
        left_out = f"{len(rows) - shown} more left out." if shown < len(rows) else ""
        lines += [*rows[:shown], "", left_out, ""]
    return "\n".join([*lines, *environment]).rstrip()


def _head(found: Differences, torch: Upgrade) -> str:
    """Returns the line above the changes that a change of torch made."""
    head = f"torch {torch.old} → {torch.new}: the {torch.name}"
    if not any(_changed(found)):
        return f"{head} changed no test"
    return f"{head} made these changes, if the code is the same"


def _environment(
    facts: Facts, torch: Upgrade | None, quoted: Callable[[str], str]
) -> Iterator[str]:
    """Yields the changed workspaces and facts; the head has the change of torch."""
    for place, old, new, tests in torch.workspaces if torch else ():
        yield (
            f"workspaces kept outside of {format_count(tests, 'test')} on {quoted(place)}:"
            f" {format_size(old)} → {format_size(new)}"
        )
    for name, (old, new) in facts.items():
        if not (torch and name == "torch"):
            yield f"{name}: {quoted(str(old))} → {quoted(str(new))}"


def verdict(found: Differences) -> str:
    """Returns the number of failed tests, and the number of tests of each kind."""
    tests = format_count(found.compared, "test")
    tolerance = "" if str(found.tolerance) == "0" else f" (beyond {found.tolerance})"
    counts = ", ".join(
        f"{found.count(kind)} {kind.value}{tolerance if kind is ChangeKind.GREW else ''}"
        for kind in ChangeKind
        if found.count(kind)
    )
    failing = sum(change.fails for change in found.changes) or "none"
    return f"{failing} of {tests} failed the comparison: {counts or 'there are none'}."


def to_dict(found: Differences, facts: Facts, torch: Upgrade | None) -> dict[str, Any]:
    """Returns the result as JSON values."""
    versions = torch and {
        "from": torch.old,
        "to": torch.new,
        "workspaces": [moved._asdict() for moved in torch.workspaces],
    }
    return {
        "schema": 1,
        "failed": found.failed,
        "tolerance": str(found.tolerance),
        "counts": {kind.value: found.count(kind) for kind in ChangeKind},
        "environment": {name: [*pair] for name, pair in facts.items()},
        "upgrade": versions,
        "changes": [_to_dict(change) for change in _changed(found)],
    }


def _to_dict(change: Change) -> dict[str, Any]:
    row = change.row
    return {
        "nodeid": row.nodeid,
        "region": row.region,
        "metric": row.metric,
        "fate": change.kind.value,
        "fails": change.fails,
        "delta_bytes": change.delta,
        "operators": by_operator(change),
        "terms": _terms(change),
        "old": _side(change.old),
        "new": _side(change.new),
    }


def _side(row: Record | None) -> dict[str, Any] | None:
    if row is None:
        return None
    outcome = row.outcome.value if row.outcome else None
    return {"bytes": row.value, "place": row.place, "outcome": outcome, "reason": row.reason}


def _changed(found: Differences) -> Iterator[Change]:
    return (change for change in found.changes if change.kind is not ChangeKind.SAME)


def _unit(found: Differences) -> str:
    """Returns the unit of the median of the table's sizes; limits, which it lacks, do not count.

    In the unit of the largest size, most other sizes would read 0.0.
    """
    rows = (row for change in _changed(found) for row in (change.old, change.new) if row)
    sizes = sorted(row.value for row in rows if row.value)
    return common_unit(sizes[len(sizes) // 2 :][:1])


def _headers(unit: str) -> tuple[str, ...]:
    return ("test", f"old {unit}", f"new {unit}", "Δ", "Δ %", "")


def _name(change: Change) -> str:
    row = change.row
    return row_name((row.nodeid, row.region, row.metric))


def _numbers(change: Change, unit: str) -> Iterator[str]:
    for row in (change.old, change.new):
        yield cells.size(row.value if row is not None else None, unit)
    yield "" if change.delta is None else format_change(change.delta)
    yield _percent(change)


def _percent(change: Change) -> str:
    before = change.old.value if change.old is not None else None
    if change.delta is None or not before:
        return ""
    percent = Fraction(change.delta * 100, abs(before))
    if abs(percent) > 999:
        return "<-999" if percent < 0 else ">+999"
    return f"{float(percent):+.1f}"


def _kind(change: Change, quoted: Callable[[str, int], str], torch: Upgrade | None) -> str:
    """Returns the kind in a word, with the reason if the numbers do not show it.

    Between two versions of torch, the operators that changed are a reason; otherwise the terms.
    """
    kind, why = change.kind.value, ""
    if change.kind is ChangeKind.OTHER_DEVICE and change.old is not None and change.new is not None:
        why = f"{change.old.place} → {change.new.place}"
    elif change.kind in (ChangeKind.NOW_OVER, ChangeKind.NO_LONGER_MEASURED):
        why = change.row.reason
    if more := _operators(change) if torch else _terms(change):
        why = f"{why}; {more}" if why else more
    return f"{kind}: {quoted(why, 160)}" if why.strip(" ") else kind


def _operators(change: Change) -> str:
    """Returns ``mm (scratch) +32.0 MiB``; empty if it is not known which operators changed."""
    grown = by_operator(change).items()
    return _listed([f"{name} {format_change(nbytes)}" for name, nbytes in grown])


def _terms(change: Change) -> str:
    """Returns ``+4*B*H*N^2 masked_fill attn.py:14``; empty if a session lists no tensors."""
    if not change.delta or not (change.old and change.new and change.old.held and change.new.held):
        return ""
    changes = held_changes(change.old.held, change.new.held)
    # What explains the change comes first: growth if it grew.
    return _listed([term(one) for one in (changes if change.delta > 0 else reversed(changes))])


def _listed(texts: Sequence[str], most: int = 3) -> str:
    more = [f"{len(texts) - most} more"] if len(texts) > most else []
    return ", ".join([*texts[:most], *more])


def _facts(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Returns the changed facts of the environment that memory may depend on."""
    return {
        name: (old[name], new[name])
        for name in ("torch", "cuda", "device", "compute_capability", "allocator")
        if old.get(name) and new.get(name) and old[name] != new[name]
    }
