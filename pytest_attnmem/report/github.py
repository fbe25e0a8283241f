"""GitHub Actions: annotations of the lines that failed, and the Markdown in the job's summary.

Workflow commands and their escapes follow GitHub's documentation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ..budgets import held_table
from ..budgets.verdict import Outcome
from ..errors import AttnMemError
from ..units import excerpt
from . import cells
from .markdown import bounded
from .record import Record
from .summary import Summary

#: The most bytes in the summary of one step; GitHub shows no part of a larger summary.
SUMMARY_LIMIT: Final = 1 << 20

_LEVELS: Final = ("error", "warning", "notice")
_HELD: Final = 3
_LONGEST: Final = 400


def workflow_commands(summary: Summary, root: Path, environ: Mapping[str, str]) -> Iterator[str]:
    """Yields workflow commands, one a line: errors, worst first; then warnings; then notices.

    A warning is a budget that was not enforced, a notice is an expected failure.

    The rows name files relative to ``root``; GitHub expects names relative to the root of the
    repository, ``GITHUB_WORKSPACE``.
    """
    workspace = environ.get("GITHUB_WORKSPACE", "")
    for level in _LEVELS:
        for row in summary.by_share:
            if _level(row) == level:
                properties = {**_place(row, root, workspace), "title": excerpt(row.name, _LONGEST)}
                listed = ",".join(f"{name}={_property(text)}" for name, text in properties.items())
                yield f"::{level} {listed}::{_data(_message(row))}"


def add_to_step_summary(summary: Summary, environ: Mapping[str, str]) -> None:
    """Appends the Markdown to ``$GITHUB_STEP_SUMMARY``, as much as fits.

    Raises:
        AttnMemError: the file cannot be written, or is full.
    """
    name = environ.get("GITHUB_STEP_SUMMARY", "")
    if not name:
        return
    try:
        with open(name, "ab") as file:
            text = bounded(summary, SUMMARY_LIMIT - file.tell() - 1)
            if text:
                file.write(b"\n" * bool(file.tell()) + text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise AttnMemError(
            f"cannot add to $GITHUB_STEP_SUMMARY, {name}: {error.strerror}"
        ) from error
    if not text:
        raise AttnMemError(
            f"cannot add to $GITHUB_STEP_SUMMARY, {name}: a step's summary is at most 1 MiB, and"
            " other commands of the step filled it; run this command in a step of its own"
        )


def _place(row: Record, root: Path, workspace: str) -> dict[str, str]:
    name, _, line = row.where.rpartition(":")
    if not name:
        name, line = row.nodeid.partition("::")[0], ""
    path = os.path.normpath(os.path.join(os.path.realpath(root), name))
    if workspace and Path(path).is_relative_to(top := os.path.realpath(workspace)):
        name = Path(path).relative_to(top).as_posix()
    return {"file": name, "line": line} if line else {"file": name}


def _level(row: Record) -> str:
    if row.outcome is Outcome.NOT_ENFORCED:
        return "warning"
    if row.outcome is Outcome.OVER:
        return "error" if row.fails else "notice"
    return ""


def _message(row: Record) -> str:
    if row.outcome is Outcome.NOT_ENFORCED:
        return f"memory budget not enforced: {excerpt(row.reason, _LONGEST)}"
    if not row.fails:
        return f"expected failure of a memory budget: {excerpt(row.reason, _LONGEST)}"
    moment = "end" if row.metric == "retained" else "peak"
    held = held_table.lines(row.held, moment)[1 : 1 + _HELD]
    lines = [row.reason, *cells.explanation(row), *held]
    return "\n".join(excerpt(line, _LONGEST) for line in lines)


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
