"""Writes the traces and the allocator's snapshots of failing tests to one directory."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from heapq import heappop, heappush
from itertools import chain
from pathlib import Path
from typing import Any

from ..baselines.entries import State
from ..budgets.verdict import Outcome
from ..errors import AttnMemError
from ..measurement.held import Held
from ..measurement.tensor_groups import in_module, line_of
from ..measurement.timeline import Allocation, Timeline
from ..units import format_size
from . import write
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
            write(directory / f"{stem(row)}.trace.json", render(row, row.timeline))


def write_snapshot(directory: Path, row: Record, snapshots: Sequence[Mapping[str, Any]]) -> None:
    """Writes the allocator's snapshots of a window as one, for PyTorch's memory viewer.

    Raises:
        AttnMemError: the directory or the file cannot be written.
    """
    _create(directory)
    write(directory / f"{stem(row)}.snapshot.pickle", pickle.dumps(joined(snapshots)))


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


def render(row: Record, timeline: Timeline) -> str:
    """Returns the text of the file: the allocated bytes, and a span for each tensor."""
    events = [_named("process_name", 0, row.name)]
    events += _counters(row, timeline)
    rows = lanes(timeline)
    for lane in range(1, 1 + max(rows, default=0)):
        events.append(_named("thread_name", lane, f"tensors {lane}"))
    for lane, span in zip(rows, timeline.spans, strict=True):
        end = timeline.events if span.freed_at is None else span.freed_at
        events.append(
            {
                "ph": "X",
                "name": _title(span.held),
                "cat": "tensor",
                "ts": span.allocated_at,
                "dur": end - span.allocated_at,
                "tid": lane,
                "args": _facts(span),
            }
        )
    facts = {"test": row.name, "where": row.where, "place": row.place, "note": timeline.note}
    data = {
        "traceEvents": [{"pid": 1, "tid": 0, **event} for event in events],
        "displayTimeUnit": "ns",
        "otherData": {name: value for name, value in facts.items() if value},
    }
    return json.dumps(data)


def lanes(timeline: Timeline) -> list[int]:
    """Returns a lane from 1 for each span: spans of a lane do not overlap, and lanes are few."""
    free: list[int] = []
    ends: list[tuple[int, int]] = []
    given, most = [], 0
    for span in timeline.spans:
        while ends and ends[0][0] <= span.allocated_at:
            heappush(free, heappop(ends)[1])
        if free:
            lane = heappop(free)
        else:
            most = lane = most + 1
        heappush(ends, (timeline.events if span.freed_at is None else span.freed_at, lane))
        given.append(lane)
    return given


def _counters(row: Record, timeline: Timeline) -> Iterator[dict[str, Any]]:
    levels = timeline.levels()
    for event, level in enumerate([*levels, *levels[-1:]]):
        yield {"ph": "C", "name": "bytes alive", "ts": event, "args": {"bytes": level}}
    if row.limit_bytes is not None and row.metric == "peak":
        for event in (0, timeline.events):
            yield {"ph": "C", "name": "budget", "ts": event, "args": {"bytes": row.limit_bytes}}
    if levels:
        high = max(levels)
        name = f"peak {format_size(high)}"
        yield {"ph": "i", "s": "p", "name": name, "ts": levels.index(high)}


def _named(what: str, lane: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "tid": lane, "args": {"name": name}}


def _title(held: Held) -> str:
    """Returns a title such as ``32.0 MiB softmax [1, 8, 1024, 1024]``."""
    return f"{format_size(held.nbytes)} {held.op}" + (f" {[*held.shape]}" if held.dtype else "")


def _facts(span: Allocation) -> dict[str, Any]:
    held = span.held
    facts: Iterable[tuple[str, Any]] = (
        ("shape", str([*held.shape]) if held.dtype else ""),
        ("dtype", held.dtype),
        ("op", held.op),
        ("where", line_of(held)),
        ("function", held.function),
        ("module", in_module(held)),
        ("died", "" if span.freed_at is not None else "no, alive at the end"),
    )
    return {"bytes": held.nbytes, **{name: value for name, value in facts if value}}
