"""What failing tests held, as files in one directory: traces, and the allocator's snapshots."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from ..budgets.verdict import Outcome
from ..errors import AttnMemError
from . import perfetto, write
from .record import Record

#: How much of a test's name is in that of a file; its end says more than its beginning.
_READABLE = 80
_UNSAFE = re.compile(r"[^A-Za-z0-9_.]+")


def write_traces(directory: Path, rows: Iterable[Record]) -> None:
    """A trace for each row that failed, where it is known who was alive when.

    Raises:
        AttnMemError: the directory or a file cannot be written.
    """
    _create(directory)
    for row in rows:
        failed = row.outcome is Outcome.OVER or row.baseline_state == "regressed"
        if failed and row.timeline is not None:
            text = perfetto.render(row, row.timeline)
            write(directory / f"{stem(row)}.trace.json", text)


def write_snapshot(directory: Path, row: Record, snapshots: Sequence[Mapping[str, Any]]) -> None:
    """The allocator's snapshots of a window's stretches as one, for PyTorch's memory viewer.

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
    """The last of them, with what happened before all of them."""
    traces = zip(*(snapshot["device_traces"] for snapshot in snapshots), strict=True)
    return {**snapshots[-1], "device_traces": [[*chain(*parts)] for parts in traces]}


def stem(row: Record) -> str:
    """A name for files about a row: readable, fit for any file system, and no other row's."""
    words = (row.nodeid, row.region, row.metric if row.metric != "peak" else "")
    plain = _UNSAFE.sub("-", " ".join(filter(None, words)))[-_READABLE:].strip("-.")
    key = json.dumps([row.nodeid, row.region, row.metric])
    number = sha256(key.encode("ascii")).hexdigest()[:12]
    return "-".join(filter(None, (plain, number)))
