"""The lines about the baseline at the end of a session: changes, and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..baselines.entries import (
    Baseline,
    Entries,
    Entry,
    Key,
    State,
    compare,
    moved,
    percentage,
    tolerance_of,
)
from ..baselines.environment_key import named, split
from ..budgets.tolerance import Tolerance
from ..budgets.verdict import Outcome
from ..units import excerpt, format_change, format_distinct, format_size, format_some
from .cells import aligned
from .record import Record

#: The most rows of the table; version control shows longer lists, such as a first baseline.
_ROWS = 50
_NAMES = 5
_REASONS = 5


def changed(before: Entries, after: Entries, name: str, mode: str) -> list[str]:
    """Returns a line that counts the changed entries, and a table of old and new sizes.

    An entry that moved to another version of torch is one entry with two sizes.
    """
    moves = moved(before, after)
    was = {key: before[moves.get(key, key)] for key in after if moves.get(key, key) in before}
    was |= {key: before[key] for key in before.keys() - after.keys() - {*moves.values()}}
    keys = [key for key in sorted({*was, *after}) if _bytes(was, key) != _bytes(after, key)]
    added = sum(key not in was for key in keys)
    removed = sum(key not in after for key in keys)
    same = sum(key in was and key not in moves for key in after)
    edited = sum(key in was and key in after and key not in moves for key in keys)
    counts = (
        (edited, "changed"),
        (added, "added"),
        *_moves(moves, keys),
        (removed, "taken out"),
        (same - edited, "as before"),
    )
    listed = ", ".join(f"{count} {what}" for count, what in counts if count)
    listed = listed or "no entries, because nothing was measured"
    title = f"{name} (--attnmem-update {mode}): {listed}"
    return [title, *_table(keys, was, after)] if keys else [title]


def _moves(moves: Mapping[Key, Key], changed: Iterable[Key]) -> Iterator[tuple[int, str]]:
    """Yields a count for each pair of versions: 3 ``moved from torch 2.13 to 2.15 (1 changed)``."""
    pairs = {key: (_version(old), _version(key)) for key, old in moves.items()}
    bytes_too = Counter(pairs[key] for key in changed if key in pairs)
    for pair, count in sorted(Counter(pairs.values()).items()):
        also = f" ({bytes_too[pair]} changed)" if bytes_too[pair] else ""
        yield count, f"moved from {named(pair[0])} to {pair[1]}{also}"


def left_out(
    records: Sequence[Record], measured: Entries, passed: Iterable[str], name: str
) -> list[str]:
    """Returns a line that counts the tests without an entry, and a line for each reason.

    A test that ``passed`` without a row measures parts of itself only, and had none.
    """
    known = {key[:3] for key in measured}
    tests: dict[str, list[str]] = {}
    for row in records:
        lacks = row.outcome is not Outcome.OVER and bool(row.reason)
        if lacks and not row.baseline_state and (row.nodeid, row.region, row.metric) not in known:
            tests.setdefault(row.reason, []).append(row.name)
    if unmarked := sorted({*passed} - {row.nodeid for row in records}):
        tests[_UNMARKED] = unmarked
    if not tests:
        return []
    count = sum(map(len, tests.values()))
    lines = [f"{name}: {count} left out, because nothing is known to record"]
    by_count = sorted(tests.items(), key=lambda found: (-len(found[1]), found[0]))
    for reason, found in by_count[:_REASONS]:
        lines.append(f"  {len(found)} {excerpt(reason, 160)}: {format_some(found, _NAMES)}")
    if others := sum(len(found) for _, found in by_count[_REASONS:]):
        lines.append(f"  {others} for other reasons")
    return lines


#: Why a test has no row though it passed.
_UNMARKED = "without memory_budget, whose attnmem fixture makes them measure their regions only"


def notes(
    records: Sequence[Record],
    baseline: Baseline,
    measured: Entries,
    mode: str | None,
    tolerance: Tolerance | None = None,
) -> list[str]:
    """Returns a line for each kind of row that differs from the baseline, with what to do.

    ``tolerance`` is the option's; None is the default of each environment.
    """
    lines: list[str] = []
    new = [key for key in measured if key not in baseline.entries]
    if mode not in ("all", "new"):
        others = {key: other for key in new if (other := baseline.of_other_torch(key))}
        lines += _upgrades(baseline, measured, others, tolerance)
        new = [key for key in new if key not in others]
        if new:
            lines.append(_new(baseline, new))
    improved = sum(row.baseline_state == State.IMPROVED.value for row in records)
    if improved and mode != "all":
        lines.append(f"{baseline.name}: {improved} improved; --attnmem-update all writes it down")
    stale = [row.name for row in records if row.baseline_state == State.STALE.value]
    if stale:
        lines.append(
            f"{baseline.name}: {len(stale)} stale, measured no more: {format_some(stale, _NAMES)};"
            " --attnmem-update prune takes them out"
        )
    return lines


def _upgrades(
    baseline: Baseline,
    measured: Entries,
    others: Mapping[Key, Key],
    tolerance: Tolerance | None,
) -> Iterator[str]:
    """Yields what a change of torch did to the tests without an entry of this version."""
    counts: dict[tuple[str, str, bool], Counter[State]] = {}
    for key, other in others.items():
        versions = (_version(other), _version(key), baseline.keeps_versions(key.environment))
        allowed = tolerance or tolerance_of(key.environment)
        state = compare(measured[key].nbytes, baseline.entries[other], allowed)
        counts.setdefault(versions, Counter())[state] += 1
    for (recorded, version, keeps), states in sorted(counts.items()):
        told = [(states[state], word) for state, word in _NEEDS if states[state]]
        (count, word), *more = told
        first = f"{count} test needs {word}" if count == 1 else f"{count} tests need {word}"
        how = "new writes them" if keeps else "all moves them, new keeps both"
        listed = ", ".join([first, *(f"{count} {word}" for count, word in more)])
        yield (
            f"{baseline.name}: recorded on {named(recorded)}, this is {version}: {listed};"
            f" --attnmem-update {how}"
        )


#: In the order of the line.
_NEEDS = ((State.REGRESSED, "more"), (State.IMPROVED, "less"), (State.SAME, "the same"))


def _new(baseline: Baseline, new: Sequence[Key]) -> str:
    here = ", ".join(sorted({key.environment for key in new}))
    others = sorted({other for key in new for other in baseline.elsewhere(key)})
    only = f", and it has them for {', '.join(others)} only" if others else ""
    return f"{baseline.name}: {len(new)} new on {here}{only}; --attnmem-update new writes them"


def _version(key: Key) -> str:
    return split(key.environment)[1]


def _bytes(entries: Entries, key: Key) -> int | None:
    entry = entries.get(key)
    return entry.nbytes if entry is not None else None


def _table(keys: Sequence[Key], before: Entries, after: Entries) -> list[str]:
    rows = []
    for key in keys[:_ROWS]:
        sides = before.get(key), after.get(key)
        rows.append([key.name, key.environment, *_sizes(*sides), _change(*sides)])
    table = aligned(rows, ["test", "on", "before", "after", "change"], "llrrr")
    more = [f"and {len(keys) - _ROWS} more"] if len(keys) > _ROWS else []
    return [*table, *more]


def _sizes(before: Entry | None, after: Entry | None) -> tuple[str, ...]:
    if before is None or after is None:
        return tuple("-" if one is None else format_size(one.nbytes) for one in (before, after))
    return format_distinct(before.nbytes, after.nbytes)


def _change(before: Entry | None, after: Entry | None) -> str:
    if before is None:
        return "added"
    if after is None:
        return "taken out"
    change = after.nbytes - before.nbytes
    return f"{format_change(change)}{percentage(after.nbytes, before.nbytes)}"
