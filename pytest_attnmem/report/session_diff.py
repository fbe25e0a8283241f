"""The changes of each test from one session to another."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from ..baselines.entries import NO_ENTRY, OTHER_ENTRY
from ..budgets.tolerance import Tolerance
from ..budgets.verdict import Outcome
from ..errors import AttnMemError
from .record import Record


class ChangeKind(Enum):
    """The kinds of changes; those that fail come first."""

    NOW_OVER = "now over"
    NO_LONGER_MEASURED = "no longer measured"
    REMOVED = "removed"
    """Measured in the older session, and absent from the newer session."""
    GREW = "grew"
    WITHIN_TOLERANCE = "grew within the tolerance"
    SHRANK = "shrank"
    NEWLY_MEASURED = "now measured"
    ADDED = "added"
    REMOVED_UNMEASURED = "removed unmeasured"
    OTHER_DEVICE = "measured elsewhere"
    """On another backend or device; the numbers cannot be compared."""
    SAME = "unchanged"


_FAILS = frozenset(
    {ChangeKind.NOW_OVER, ChangeKind.NO_LONGER_MEASURED, ChangeKind.GREW, ChangeKind.REMOVED}
)
#: Changes without two numbers of one device.
_APART = frozenset({ChangeKind.ADDED, ChangeKind.REMOVED_UNMEASURED, ChangeKind.OTHER_DEVICE})


@dataclass(frozen=True, slots=True)
class Change:
    """One test, region and metric in both sessions; ``None`` if a session lacks it."""

    kind: ChangeKind
    old: Record | None
    new: Record | None

    @property
    def fails(self) -> bool:
        """Returns True if the change should not be merged."""
        return self.kind in _FAILS

    @property
    def row(self) -> Record:
        """Returns the newer row, or the older row if the newer session lacks it."""
        row = self.new or self.old
        if row is None:
            raise ValueError("a change needs an old or a new row; found neither")
        return row

    @property
    def delta(self) -> int | None:
        """Returns the bytes that the test grew by, or None if the rows cannot be compared."""
        if self.old is None or self.new is None or self.kind in _APART:
            return None
        if not (is_measured(self.old) and is_measured(self.new)):
            return None
        return (self.new.value or 0) - (self.old.value or 0)


@dataclass(frozen=True, slots=True)
class Differences:
    """All tests of two sessions; failures first, and in each kind the largest growth first."""

    changes: tuple[Change, ...]
    tolerance: Tolerance

    @property
    def failed(self) -> bool:
        """Returns True if a test needs more memory than before, or may need more."""
        return any(change.fails for change in self.changes)

    @property
    def compared(self) -> int:
        """Returns the number of tests that are compared: in both sessions in one place, or gone."""
        return sum(change.kind not in _APART for change in self.changes)

    def count(self, kind: ChangeKind) -> int:
        """Returns the number of changes of that kind."""
        return sum(change.kind is kind for change in self.changes)


Session = tuple[Iterable[Record], Mapping[str, Any]]


def differences(old: Session, new: Session, tolerance: Tolerance) -> Differences:
    """Returns the change of each test; a session is its records and its environment.

    A test that both sessions measured on one device is compared, even if the environments differ:
    an upgrade of torch is a change like any other.

    Raises:
        AttnMemError: the older session has tests, and none of them can be compared.
    """
    before, after = _by_place(*old), _by_place(*new)
    changes = [
        Change(_kind(before[key], after[key], tolerance), before[key], after[key])
        for key in before.keys() & after.keys()
    ]
    changes += _alone(before, after)
    compared = (one for one in changes if one.new and (one.fails or one.delta is not None))
    if before and not any(compared):
        there, here = (", ".join(sorted({*_places(rows)})) or "nowhere" for rows in (before, after))
        raise AttnMemError(
            "nothing can be compared: no test was measured on the same device in both sessions"
            f" (the first measured on {there}, the second on {here})"
        )
    return Differences(tuple(sorted(changes, key=_order)), tolerance)


def is_measured(row: Record) -> bool:
    """Returns True if the row has a number that was measured completely.

    A budget that lacks only an entry in a baseline was measured.
    """
    unproven = row.outcome is Outcome.NOT_ENFORCED or (row.outcome is None and bool(row.reason))
    unproven = unproven and not row.reason.startswith((NO_ENTRY, OTHER_ENTRY))
    return row.value is not None and not unproven and not row.out_of_memory


_Key = tuple[str, str, str, str]


def _by_place(records: Iterable[Record], environment: Mapping[str, Any]) -> dict[_Key, Record]:
    """Returns the rows by test and place; of several processes' rows, the largest."""
    rows: dict[_Key, Record] = {}
    for row in records:
        key = (row.nodeid, row.region, row.metric, _place(row, environment))
        if key not in rows or (rows[key].value or 0) < (row.value or 0):
            rows[key] = row
    return rows


def _place(row: Record, environment: Mapping[str, Any]) -> str:
    """Returns the place of the row; for a CUDA device, with the name of the device."""
    if row.backend == "cuda" and environment.get("compute_capability"):
        return f"{row.place} ({environment.get('device')})"
    return row.place


def _places(rows: Mapping[_Key, Record]) -> Iterator[str]:
    return (key[3] for key, row in rows.items() if is_measured(row))


def _kind(old: Record, new: Record, tolerance: Tolerance) -> ChangeKind:
    if not is_measured(old):
        return ChangeKind.NEWLY_MEASURED if is_measured(new) else ChangeKind.SAME
    if new.fails and not old.fails:
        return ChangeKind.NOW_OVER
    if not is_measured(new):
        return ChangeKind.NO_LONGER_MEASURED
    before, after = old.value or 0, new.value or 0
    if after > before + tolerance.allowance(before):
        return ChangeKind.GREW
    if after == before:
        return ChangeKind.SAME
    return ChangeKind.WITHIN_TOLERANCE if after > before else ChangeKind.SHRANK


def _alone(before: Mapping[_Key, Record], after: Mapping[_Key, Record]) -> Iterator[Change]:
    """Yields the changes of rows that only one session has in that place."""
    gone: dict[tuple[str, str, str], list[Record]] = {}
    for key in before.keys() - after.keys():
        gone.setdefault(key[:3], []).append(before[key])
    for key in after.keys() - before.keys():
        row, others = after[key], gone.get(key[:3])
        old = others.pop() if others else None
        if old is None:
            kind = ChangeKind.ADDED
        elif is_measured(old):
            measured = is_measured(row)
            kind = ChangeKind.OTHER_DEVICE if measured else ChangeKind.NO_LONGER_MEASURED
        else:
            kind = ChangeKind.NEWLY_MEASURED if is_measured(row) else ChangeKind.SAME
        yield Change(kind, old, row)
    for old in (old for others in gone.values() for old in others):
        kind = ChangeKind.REMOVED if is_measured(old) else ChangeKind.REMOVED_UNMEASURED
        yield Change(kind, old, None)


def _order(change: Change) -> tuple[int, int, str, str]:
    row = change.row
    return [*ChangeKind].index(change.kind), -(change.delta or 0), row.name, row.metric


class Workspace(NamedTuple):
    """Bytes that libraries keep outside of the tests' windows, before and after."""

    place: str
    old_bytes: int
    new_bytes: int
    tests: int


@dataclass(frozen=True, slots=True)
class Upgrade:
    """Two sessions on two versions of torch."""

    old: str
    new: str
    """The whole version, ``2.15.0+cu132``."""
    workspaces: tuple[Workspace, ...]

    @property
    def name(self) -> str:
        """Returns ``upgrade``, or ``downgrade`` if the second session has the older version."""
        return "upgrade" if _number(self.old) < _number(self.new) else "downgrade"


def upgrade(old: Mapping[str, Any], new: Mapping[str, Any], found: Differences) -> Upgrade | None:
    """Returns the change of torch between two environments; None if the version is the same.

    Two builds of one version, as ``2.13.0+cpu`` and ``2.13.0+cu130``, count as the same version.
    """
    versions = [environment.get("torch") for environment in (old, new)]
    if not all(versions) or len({_public(version) for version in versions}) == 1:
        return None
    counts: Counter[tuple[str, int, int]] = Counter()
    for change in found.changes:
        if change.delta is not None and change.old is not None and change.new is not None:
            before, after = change.old.workspace_bytes, change.new.workspace_bytes
            if before != after:
                counts[change.new.place, before, after] += 1
    workspaces = (Workspace(*moved, tests) for moved, tests in sorted(counts.items()))
    return Upgrade(str(versions[0]), str(versions[1]), tuple(workspaces))


def by_operator(change: Change) -> dict[str, int]:
    """Returns operator → bytes that its tensors grew by, the largest change first.

    Empty unless both sessions listed their tensors, as ``--attnmem-explain all`` does, and these
    account for every byte of the change.
    """
    old, new = change.old, change.new
    if change.delta is None or old is None or new is None or not (old.held and new.held):
        return {}
    grown: Counter[str] = Counter()
    for sign, row in ((-1, old), (1, new)):
        for held in row.held:
            grown[held.op or "no operator"] += sign * held.nbytes
    if sum(grown.values()) != change.delta:
        return {}
    changed = [(name, nbytes) for name, nbytes in grown.items() if nbytes]
    return dict(sorted(changed, key=lambda one: (-abs(one[1]), one[0])))


def _public(version: object) -> str:
    return str(version).partition("+")[0]


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", _public(version))))
