"""The bytes of every commit and the steps between them, as ``attnmem history`` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path

from ..contents import contents
from ..errors import AttnMemError
from ..report.json_types import made_of
from ..units import shown

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of the tests with the files of one commit."""

    values: Mapping[str, int] = field(default_factory=dict)
    """Bytes by row."""
    gaps: Mapping[str, str] = field(default_factory=dict)
    """Why a test has no number, by test; under the empty name why all have none."""
    used: Mapping[str, str] = field(default_factory=dict)
    """What stood in for something that is not here, and for what."""

    def gap(self, row: str) -> str:
        """Returns why a row has no number: its test's reason, or that of all tests."""
        found = self.gaps.get(row) or self.gaps.get(row.partition(" ")[0])
        return found or self.gaps.get("") or "no such test"


@dataclass(frozen=True, slots=True)
class Point:
    """One commit, with what was measured there."""

    sha: str
    parents: tuple[str, ...]
    """The commits of the list that it follows."""
    author: str
    date: str
    """The author's date, ``2026-04-14``."""
    subject: str
    measured: Measured
    tree: str = ""
    """What the files are known by: equal texts, equal files."""

    @property
    def short(self) -> str:
        """Returns the first ten digits of its hash."""
        return self.sha[:10]


@dataclass(frozen=True, slots=True)
class TensorChange:
    """The tensors that one line makes in one way, at both peaks."""

    text: str
    """``+32.0 MiB  [B, H, N, N] float32 clone  attend.py:368 in attend``."""
    kind: str
    """What they are known by, whatever their line: operator, dtype and shape."""
    delta_bytes: int
    term: str = ""
    """``+8*B*H*N^2 clone attend.py:368``; bytes where no symbol is proved."""
    holder: str = ""
    """Who holds them: ``Intermediates.pre_softmax_attn``; empty where nobody knows."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What two runs of one row, each alone in a process of its own, tell of a step."""

    before: int | None
    after: int | None
    change: str = ""
    """The difference by terms and lines; empty if it is not proved."""
    tensors: tuple[TensorChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Step:
    """A change of one row's bytes from one measured commit to the next."""

    row: str
    parent: str
    """The hash of the measured commit before it."""
    sha: str
    before: int
    after: int
    gaps: tuple[str, ...] = ()
    """The commits between the two that have no number: it may be in one of them."""
    cause: Cause | None = None
    """None if nobody looked."""
    ended_by: str = ""
    """The hash of the commit that undid it; empty: it is still there."""

    @property
    def delta(self) -> int:
        """Returns the bytes that it adds."""
        return self.after - self.before

    @property
    def is_confirmed(self) -> bool:
        """Returns True if both commits, each alone in a process of its own, gave these bytes."""
        return self.cause is not None and (self.cause.before, self.cause.after) == (
            self.before,
            self.after,
        )


@dataclass(frozen=True, slots=True)
class ProjectHistory:
    """The memory of a project over its commits."""

    name: str
    """The repository's."""
    facts: Mapping[str, str]
    """Where it was measured, with what, and by which tests."""
    points: tuple[Point, ...]
    """Each commit after those that it follows."""
    steps: tuple[Step, ...] = ()

    @property
    def rows(self) -> list[str]:
        """Returns the rows that have a number at some commit."""
        return [*dict.fromkeys(row for point in self.points for row in point.measured.values)]

    @property
    def used(self) -> dict[str, str]:
        """Returns what stood in for something that is not here at any commit."""
        return {name: kind for one in self.points for name, kind in one.measured.used.items()}

    def point(self, sha: str) -> Point:
        """Returns the commit with this hash."""
        return next(point for point in self.points if point.sha == sha)


def to_json(history: ProjectHistory) -> str:
    """Returns the history as JSON, a line for each commit; sizes are bytes."""
    data = {"schema": SCHEMA, "kind": "history", **asdict(history)}
    parts = []
    for name, value in data.items():
        if isinstance(value, (list, tuple)):
            lines = ",\n".join(json.dumps(one, ensure_ascii=False) for one in value)
            parts.append(f'"{name}": [\n{lines}\n]')
        else:
            parts.append(f'"{name}": {json.dumps(value, ensure_ascii=False)}')
    return "{" + ",\n".join(parts) + "}\n"


def read_history(path: Path) -> ProjectHistory | None:
    """Returns the history in a file; None if the file has something else, or cannot be read.

    Raises:
        AttnMemError: it is of another version, or damaged.
    """
    try:
        data = json.loads(contents(path))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("kind") != "history":
        return None
    if data.get("schema") != SCHEMA:
        raise AttnMemError(
            f"{path}: expected a history of schema {SCHEMA}, got {shown(data.get('schema'))};"
            " use the version of attnmem that wrote it"
        )
    try:
        made = made_of(ProjectHistory, data)
        _check_names(made)
    except (KeyError, TypeError, ValueError) as error:
        raise AttnMemError(f"{path}: cannot read this history: {shown(error)}") from error
    return made


def _check_names(history: ProjectHistory) -> None:
    """Raises ValueError if a date is none, or a step names a commit or row that is not there."""
    for point in history.points:
        date.fromisoformat(point.date)
    commits, rows = {point.sha for point in history.points}, {*history.rows}
    for step in history.steps:
        if not {step.parent, step.sha, step.ended_by or step.sha} <= commits:
            raise ValueError(f"a step of {step.row!r} is at a commit that is not in it")
        if step.row not in rows:
            raise ValueError(f"a step is of {step.row!r}, which no commit has")
