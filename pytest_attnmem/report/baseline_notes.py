"""The lines about the baseline at the end of a session: changes, and what to do next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..baselines.entries import Baseline, Entries, Entry, Key, State, percentage
from ..units import common_unit, format_in
from .record import Record

#: The most rows of the table; version control shows longer lists, such as a first baseline.
_ROWS = 50
_NAMES = 5


def changed(before: Entries, after: Entries, name: str, mode: str) -> list[str]:
    """Returns a line that counts the changed entries, and a table of old and new sizes."""
    keys = [key for key in sorted({*before, *after}) if _bytes(before, key) != _bytes(after, key)]
    added = sum(key not in before for key in keys)
    removed = sum(key not in after for key in keys)
    counts = (
        (len(keys) - added - removed, "changed"),
        (added, "added"),
        (removed, "taken out"),
        (len({*before} & {*after}) - (len(keys) - added - removed), "as before"),
    )
    listed = ", ".join(f"{count} {what}" for count, what in counts if count) or "no entries"
    title = f"{name} (--attnmem-update {mode}): {listed}"
    return [title, *_table(keys, before, after)] if keys else [title]


def notes(
    records: Sequence[Record], baseline: Baseline, measured: Iterable[Key], mode: str | None
) -> list[str]:
    """Returns a line for each kind of row that differs from the baseline, with what to do."""
    lines = []
    new = [key for key in measured if key not in baseline.entries]
    if new and mode not in ("all", "new"):
        here = ", ".join(sorted({key.environment for key in new}))
        others = sorted({other for key in new for other in baseline.elsewhere(key)})
        only = f", and it has them for {', '.join(others)} only" if others else ""
        lines.append(
            f"{baseline.name}: {len(new)} new on {here}{only}; --attnmem-update new writes them"
        )
    improved = sum(row.baseline_state == State.IMPROVED.value for row in records)
    if improved and mode != "all":
        lines.append(f"{baseline.name}: {improved} improved; --attnmem-update all writes it down")
    stale = [row.name for row in records if row.baseline_state == State.STALE.value]
    if stale:
        more = f" and {len(stale) - _NAMES} more" if len(stale) > _NAMES else ""
        lines.append(
            f"{baseline.name}: {len(stale)} stale, measured no more: {', '.join(stale[:_NAMES])}"
            f"{more}; --attnmem-update prune takes them out"
        )
    return lines


def _bytes(entries: Entries, key: Key) -> int | None:
    entry = entries.get(key)
    return entry.nbytes if entry is not None else None


def _table(keys: Sequence[Key], before: Entries, after: Entries) -> list[str]:
    from tabulate import tabulate

    listed = keys[:_ROWS]
    known = [entry for key in listed for entry in (before.get(key), after.get(key)) if entry]
    sizes = sorted(entry.nbytes for entry in known)
    unit = common_unit(sizes[len(sizes) // 2 :][:1])
    rows = [
        [
            key.name,
            key.environment,
            _size(before.get(key), unit),
            _size(after.get(key), unit),
            _change(before.get(key), after.get(key)),
        ]
        for key in listed
    ]
    table = tabulate(
        rows,
        headers=["test", "on", f"before {unit}", f"after {unit}", "change"],
        colalign=["left", "left", "right", "right", "right"],
        disable_numparse=True,
    )
    more = [f"and {len(keys) - _ROWS} more"] if len(keys) > _ROWS else []
    return [*table.splitlines(), *more]


def _size(entry: Entry | None, unit: str) -> str:
    return "-" if entry is None else format_in(entry.nbytes, unit)


def _change(before: Entry | None, after: Entry | None) -> str:
    if before is None:
        return "added"
    if after is None:
        return "taken out"
    change = after.nbytes - before.nbytes
    return f"{change:+,} B{percentage(after.nbytes, before.nbytes)}"
