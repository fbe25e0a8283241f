"""What became of each test from one session to another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from ..budgets.tolerance import Tolerance
from ..budgets.verdict import Outcome
from ..errors import AttnMemError
from .record import Record


class Fate(Enum):
    """What became of a test; those that fail come first."""

    BROKEN = "now over"
    UNPROVEN = "no longer measured"
    REMOVED = "removed"
    """Measured before, and in the newer session not at all."""
    GREW = "grew"
    ALLOWED = "grew within the tolerance"
    SHRANK = "shrank"
    PROVEN = "now measured"
    ADDED = "added"
    FORGOTTEN = "removed unmeasured"
    ELSEWHERE = "measured elsewhere"
    """On another backend or device: numbers that say nothing of each other."""
    SAME = "unchanged"


_FAILS = frozenset({Fate.BROKEN, Fate.UNPROVEN, Fate.GREW, Fate.REMOVED})
#: Neither says anything of what the code needs now.
_APART = frozenset({Fate.ADDED, Fate.FORGOTTEN, Fate.ELSEWHERE})


@dataclass(frozen=True, slots=True)
class Change:
    """One test, region and metric in both sessions; ``None`` where it is not in one."""

    fate: Fate
    old: Record | None
    new: Record | None

    @property
    def fails(self) -> bool:
        """Whether it should not be merged so."""
        return self.fate in _FAILS

    @property
    def row(self) -> Record:
        """The newer that there is."""
        row = self.new or self.old
        if row is None:
            raise ValueError("a change of nothing")
        return row

    @property
    def delta(self) -> int | None:
        """Bytes more than before, where both can be compared."""
        if self.old is None or self.new is None or self.fate in _APART:
            return None
        if not (is_measured(self.old) and is_measured(self.new)):
            return None
        return (self.new.value or 0) - (self.old.value or 0)


@dataclass(frozen=True, slots=True)
class Differences:
    """All tests of two sessions, sorted: what fails first, and of that the largest first."""

    changes: tuple[Change, ...]
    tolerance: Tolerance

    @property
    def failed(self) -> bool:
        """Whether any test needs more than before, or is not known to need no more."""
        return any(change.fails for change in self.changes)

    @property
    def compared(self) -> int:
        """Returns the number of tests that are compared: in both sessions in one place, or gone."""
        return sum(change.fate not in _APART for change in self.changes)

    def count(self, fate: Fate) -> int:
        """Tests of that fate."""
        return sum(change.fate is fate for change in self.changes)


Session = tuple[Iterable[Record], Mapping[str, Any]]


def differences(old: Session, new: Session, tolerance: Tolerance) -> Differences:
    """What became of each test; each session is its records and its environment.

    A test that was measured in both in one place is compared, whatever else of the environments
    differs: an upgrade of torch is a change like any other.

    Raises:
        AttnMemError: there were tests, and none of them can be compared.
    """
    before, after = _by_place(*old), _by_place(*new)
    changes = [
        Change(_fate(before[key], after[key], tolerance), before[key], after[key])
        for key in before.keys() & after.keys()
    ]
    changes += _alone(before, after)
    if before and not any(_compares(change) for change in changes):
        there, here = (", ".join(sorted({*_places(rows)})) or "nowhere" for rows in (before, after))
        raise AttnMemError(
            "nothing can be compared: no test was measured in one place in both sessions (in the"
            f" first on {there}, in the second on {here})"
        )
    return Differences(tuple(sorted(changes, key=_order)), tolerance)


def _compares(change: Change) -> bool:
    """Returns whether the change compares one test in both sessions."""
    return change.new is not None and (change.fails or change.delta is not None)


def is_measured(row: Record) -> bool:
    """Whether its number is to be believed."""
    unproven = row.outcome is Outcome.NOT_ENFORCED or (row.outcome is None and bool(row.reason))
    return row.value is not None and not unproven and not row.out_of_memory


_Key = tuple[str, str, str, str]


def _by_place(records: Iterable[Record], environment: Mapping[str, Any]) -> dict[_Key, Record]:
    """By test and place; of several processes' rows the larger."""
    rows: dict[_Key, Record] = {}
    for row in records:
        key = (row.nodeid, row.region, row.metric, _place(row, environment))
        if key not in rows or (rows[key].value or 0) < (row.value or 0):
            rows[key] = row
    return rows


def _place(row: Record, environment: Mapping[str, Any]) -> str:
    """Of a CUDA device, what it is and not only its number."""
    if row.backend == "cuda" and environment.get("compute_capability"):
        return f"{row.place} ({environment.get('device')})"
    return row.place


def _places(rows: Mapping[_Key, Record]) -> Iterator[str]:
    return (key[3] for key, row in rows.items() if is_measured(row))


def _fate(old: Record, new: Record, tolerance: Tolerance) -> Fate:
    if not is_measured(old):
        return Fate.PROVEN if is_measured(new) else Fate.SAME
    if new.fails and not old.fails:
        return Fate.BROKEN
    if not is_measured(new):
        return Fate.UNPROVEN
    before, after = old.value or 0, new.value or 0
    if after > before + tolerance.allowance(before):
        return Fate.GREW
    if after == before:
        return Fate.SAME
    return Fate.ALLOWED if after > before else Fate.SHRANK


def _alone(before: Mapping[_Key, Record], after: Mapping[_Key, Record]) -> Iterator[Change]:
    """Rows that have none to be compared with: of a test in another place, or of no test."""
    gone: dict[tuple[str, str, str], list[Record]] = {}
    for key in before.keys() - after.keys():
        gone.setdefault(key[:3], []).append(before[key])
    for key in after.keys() - before.keys():
        row, others = after[key], gone.get(key[:3])
        old = others.pop() if others else None
        if old is None:
            yield Change(Fate.ADDED, None, row)
        elif is_measured(old) and is_measured(row):
            yield Change(Fate.ELSEWHERE, old, row)
        elif is_measured(old):
            yield Change(Fate.UNPROVEN, old, row)
        else:
            yield Change(Fate.PROVEN if is_measured(row) else Fate.SAME, old, row)
    for old in (old for others in gone.values() for old in others):
        yield Change(Fate.REMOVED if is_measured(old) else Fate.FORGOTTEN, old, None)


def _order(change: Change) -> tuple[int, int, str, str]:
    row = change.row
    return [*Fate].index(change.fate), -(change.delta or 0), row.name, row.metric
