"""The changes that another version of torch made between two sessions."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .session_diff import Change, Differences


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
