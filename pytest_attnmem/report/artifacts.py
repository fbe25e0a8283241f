"""Writes the traces and the allocator's snapshots of failing tests to one directory."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from ..baselines.entries import State
from ..budgets.verdict import Outcome
from ..errors import AttnMemError
from . import perfetto, write
from .record import Record

#: The most characters of a test's name in a file's name; the end of a name tells tests apart.
_READABLE = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")


def write_traces(directory: Path, rows: Iterable[Record]) -> None:
    """Writes a trace for each failed row that has a timeline.

    Raises:
        AttnMemError: the directory or a file cannot be written.
    """
    _create(directory)
    for row in rows:
        failed = row.outcome is Outcome.OVER or row.baseline_state == State.REGRESSED.value
        if failed and row.timeline is not None:
            text = perfetto.render(row, row.timeline)
            write(directory / f"{stem(row)}.trace.json", text)


def write_snapshot(directory: Path, row: Record, snapshots: Sequence[Mapping[str, Any]]) -> None:
    """Writes the allocator's snapshots of a window as one, for PyTorch's memory viewer.

    Raises:
        AttnMemError: the directory or the file cannot be written.
    """
    _create(directory)
    path = directory / f"{stem(row)}.snapshot.pickle"
    try:
        path.write_bytes(pickle.dumps(joined(snapshots)))
    except OSError as error:
        raise AttnMemError(f"cannot write {path}: {error.strerror}") from error


def _create(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise AttnMemError(f"cannot create {directory}: {error.strerror}") from error


def joined(snapshots: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Returns the last snapshot with the events of all snapshots."""
    traces = zip(*(snapshot["device_traces"] for snapshot in snapshots), strict=True)
    return {**snapshots[-1], "device_traces": [[*chain(*parts)] for parts in traces]}


def stem(row: Record) -> str:
    """Returns a name for the files of a row: readable, valid on any file system, and unique."""
    words = (row.nodeid, row.region, row.metric if row.metric != "peak" else "")
    plain = _UNSAFE.sub("-", " ".join(filter(None, words)))[-_READABLE:].strip("-.")
    key = json.dumps([row.nodeid, row.region, row.metric])
    number = sha256(key.encode("ascii")).hexdigest()[:12]
    return "-".join(filter(None, (plain, number)))
