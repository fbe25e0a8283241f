"""Merge the JSON files of the shards of a session, or of a history, into one."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from ..budgets.verdict import Outcome
from ..errors import AttnMemError
from ..history import text as history_text
from ..history.project_history import read_history, to_json
from ..history.shards import merged as merged_histories
from ..measurement.environment import merged
from ..report import json, write
from ..report.record import Record
from ..report.summary import Summary, summarise
from ..report.terminal import render_line
from ..units import shown


def add_arguments(parser: ArgumentParser) -> None:
    """``shard-*.json -o memory.json``."""
    parser.epilog = (
        "If several shards ran a test in one place, the worst result counts: over, then not"
        " enforced, then the larger number. Shards from different environments (torch's minor"
        " version, the CUDA device, its allocator) are not merged."
    )
    parser.add_argument("shards", nargs="+", type=Path, metavar="JSON", help="the files to merge")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("-"),
        metavar="PATH",
        help="the merged file (default: standard output)",
    )


def execute(arguments: Namespace) -> int:
    """Writes the merged file, or prints it.

    Raises:
        AttnMemError: a file cannot be read or written, or the files cannot be merged.
    """
    parts = [read_history(path) for path in arguments.shards]
    if histories := [part for part in parts if part is not None]:
        if len(histories) < len(parts):
            raise AttnMemError("cannot merge histories with results of sessions")
        history = merged_histories(histories)
        write(arguments.output, to_json(history))
        if arguments.output != Path("-"):
            print(history_text.summary(history))
        return 0
    summary, environment = merge(arguments.shards)
    write(arguments.output, json.render(summary, environment))
    if arguments.output != Path("-"):
        print(render_line(summary, hint=False))
    return 0


def merge(paths: Sequence[Path]) -> tuple[Summary, dict[str, Any]]:
    """Returns the rows of all files, and their environment.

    Raises:
        AttnMemError: a file cannot be read, or the environments differ.
    """
    rows: dict[tuple[str, ...], list[Record]] = {}
    environments: dict[Path, dict[str, Any]] = {}
    for path in paths:
        records, found = json.load(path)
        for earlier, environment in environments.items():
            if differs := _difference(environment, found):
                raise AttnMemError(
                    f"cannot merge {path} with {earlier}: {differs}, and memory depends on it;"
                    " merge the shards of one environment"
                )
        environments[path] = found
        for key, own in _by_test(records).items():
            rows[key] = max(rows.get(key, own), own, key=_badness)
    known = sorted(environments.values(), key=_unknown)
    try:
        return summarise(row for own in rows.values() for row in own), reduce(merged, known)
    except (AttributeError, KeyError, TypeError) as error:
        raise AttnMemError(
            f"cannot merge {', '.join(map(str, paths))}: {shown(error)} in an environment"
        ) from error


def _by_test(records: Iterable[Record]) -> dict[tuple[str, ...], list[Record]]:
    rows: dict[tuple[str, ...], list[Record]] = {}
    for row in records:
        rows.setdefault((row.nodeid, row.region, row.metric, row.place), []).append(row)
    return rows


def _badness(rows: list[Record]) -> tuple[bool, int, int]:
    order = (None, Outcome.WITHIN, Outcome.NOT_ENFORCED, Outcome.OVER)
    return max((row.fails, order.index(row.outcome), row.value or 0) for row in rows)


def _difference(first: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Returns the difference between two environments that memory depends on."""
    torch = [".".join(str(facts.get("torch")).split(".")[:2]) for facts in (first, other)]
    if first.get("torch") and other.get("torch") and torch[0] != torch[1]:
        return f"torch is {torch[1]} in one and {torch[0]} in the other"
    on_cuda = first.get("compute_capability") and other.get("compute_capability")
    for name in ("device", "compute_capability", "allocator") if on_cuda else ():
        one, another = other.get(name), first.get(name)
        if one != another:
            return f"{name} is {shown(one)} in one and {shown(another)} in the other"
    return ""


def _unknown(environment: Mapping[str, Any]) -> tuple[bool, bool]:
    return environment.get("compute_capability") is None, environment.get("torch") is None
