"""The difference between two allocator snapshots, by source line, and other settings for one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ..report.held_changes import signed
from ..snapshots.peak import LineChange, Peak, line_changes, peak
from ..snapshots.snapshot import DeviceHistory, load_snapshot
from ..snapshots.what_if import UNLIMITED, Replayed, what_if
from ..units import format_distinct, format_size

#: The most lines of code for one device.
_LINES: Final = 20
_NOTHING: Final = Peak(0, (), 0)


def diff(
    files: Sequence[Path], replayed: bool, settings: Sequence[str], capacity: int | None
) -> tuple[list[str], dict[str, Any]]:
    """Returns the lines to print, and the same as JSON values.

    Args:
        files: the older snapshot and the newer one, or one alone.
        replayed: True to replay the newer snapshot.
        settings: more settings to replay.
        capacity: the memory of the device in bytes; None: without a limit.

    Raises:
        AttnMemError: a file is not a snapshot, or a setting cannot be parsed.
    """
    histories = [load_snapshot(path) for path in files]
    lines: list[str] = []
    devices = []
    for newer in histories[-1]:
        found: dict[str, Any] = {"device": newer.device}
        if len(histories) == 2:
            older = next((one for one in histories[0] if one.device == newer.device), None)
            told, found["peak"] = _peaks(newer.device, older, newer)
            lines += [*told, ""]
        if replayed:
            limit = UNLIMITED if capacity is None else capacity
            told, found["what_if"] = _what_if(newer, what_if(newer, settings, limit))
            lines += [*told, ""]
        devices.append(found)
    return lines[:-1], {"devices": devices}


def _peaks(
    device: int, older: DeviceHistory | None, newer: DeviceHistory
) -> tuple[list[str], dict[str, Any]]:
    old, new = _NOTHING if older is None else peak(older), peak(newer)
    changes = line_changes(old, new)
    delta = new.nbytes - old.nbytes
    sizes = format_distinct(old.nbytes, new.nbytes)
    head = f"cuda:{device} peak {' → '.join(dict.fromkeys([sizes[0], sizes[-1]]))} ({delta:+,} B)"
    reserved = format_distinct(old.reserved_bytes, new.reserved_bytes)
    lines = [head, f"  reserved {reserved[0]} → {reserved[-1]}", *_table(changes)]
    return lines, {
        "old_bytes": old.nbytes,
        "new_bytes": new.nbytes,
        "old_reserved_bytes": old.reserved_bytes,
        "new_reserved_bytes": new.reserved_bytes,
        "lines": [_to_dict(change) for change in changes],
    }


def _table(changes: Sequence[LineChange]) -> Iterator[str]:
    if not changes:
        yield "  the same allocations at both peaks"
        return
    shown = changes[:_LINES]
    sizes = [signed(change.delta) for change in shown]
    counts = [f"{change.old_count} → {change.new_count}" for change in shown]
    widths = [max(map(len, texts)) for texts in (sizes, counts)]
    yield "  at the peaks, by line and number of allocations:"
    for size, count, change in zip(sizes, counts, shown, strict=True):
        yield f"    {size:>{widths[0]}}  {count:>{widths[1]}}  {change.line}"
    if rest := changes[_LINES:]:
        yield f"    and {len(rest)} more lines, {signed(sum(c.delta for c in rest))} together"


def _what_if(
    history: DeviceHistory, results: Sequence[Replayed]
) -> tuple[list[str], dict[str, Any]]:
    best = results[0]
    own = next(one for one in results if one.configuration == history.configuration)
    recorded = peak(history).reserved_bytes
    saved = own.reserved_bytes - best.reserved_bytes
    name = best.configuration or "the defaults"
    if best is own or not saved:
        head = f"cuda:{history.device}: no other setting reserves less than {_named(own)}"
    else:
        head = (
            f"cuda:{history.device}: {name} reserves {format_size(saved)} less than {_named(own)}"
        )
    agrees = (
        "as recorded"
        if own.reserved_bytes == recorded
        else f"recorded were {format_size(recorded)}, so other threads, pools or graphs took part"
    )
    lines = [head, f"  its own settings: {format_size(own.reserved_bytes)} reserved, {agrees}"]
    width = max(len(_named(one)) for one in results)
    for one in results:
        mark = "*" if one is best else " "
        peaks = f"{format_size(one.reserved_bytes)} reserved"
        text = one.out_of_memory or f"{peaks}, {format_size(one.allocated_bytes)} in blocks"
        lines.append(f"  {mark} {_named(one):{width}}  {text}")
    return lines, {
        "best": best.configuration,
        "recorded_reserved_bytes": recorded,
        "own": history.configuration,
        "settings": [
            {
                "configuration": one.configuration,
                "reserved_bytes": one.reserved_bytes,
                "allocated_bytes": one.allocated_bytes,
                "out_of_memory": one.out_of_memory,
            }
            for one in results
        ],
    }


def _named(one: Replayed) -> str:
    return one.configuration or "the defaults"


def _to_dict(change: LineChange) -> dict[str, Any]:
    return {
        "delta_bytes": change.delta,
        "old_count": change.old_count,
        "new_count": change.new_count,
        "file": change.line.file,
        "line": change.line.line,
        "function": change.line.function,
    }
