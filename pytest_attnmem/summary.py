"""Counting what became of every budget."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from .baseline import State
from .record import Record
from .verdict import Outcome


@dataclass(frozen=True, slots=True)
class Summary:
    """A session's rows and what they add up to."""

    records: tuple[Record, ...]
    """Sorted by test and region."""

    @property
    def budgets(self) -> int:
        """Rows that were held to something."""
        return sum(row.outcome is not None for row in self.records)

    def count(self, outcome: Outcome) -> int:
        """Rows that ended so."""
        return sum(row.outcome is outcome for row in self.records)

    @property
    def states(self) -> dict[str, int]:
        """How rows compare with the baseline → how many do; empty where there is none."""
        counts = {state.value: 0 for state in State}
        for row in self.records:
            if row.baseline_state:
                counts[row.baseline_state] = counts.get(row.baseline_state, 0) + 1
        return {state: count for state, count in counts.items() if count}

    @property
    def by_share(self) -> tuple[Record, ...]:
        """Rows that are over, then within, by the share of budget they use; then the others."""
        return tuple(sorted(self.records, key=_rank))

    @property
    def highest(self) -> Record | None:
        """The row with the session's own peak."""
        measured = [row for row in self.records if row.peak_bytes is not None]
        return max(measured, key=lambda row: row.peak_bytes or 0, default=None)

    @property
    def workspaces(self) -> dict[str, int]:
        """Device → what priming its libraries left allocated."""
        sizes: dict[str, int] = {}
        for row in self.records:
            if row.place:
                sizes[row.place] = max(row.workspace_bytes, sizes.get(row.place, 0))
        return sizes


def summarise(records: Iterable[Record]) -> Summary:
    """The summary of a session's rows."""
    return Summary(tuple(sorted(records, key=lambda row: (row.nodeid, row.region))))


def share(row: Record) -> Fraction | None:
    """Used part of the budget, exactly."""
    if row.value is None or not row.limit_bytes:
        return None
    return Fraction(row.value, row.limit_bytes)


def _rank(row: Record) -> tuple[int, Fraction | float, str]:
    order = {Outcome.OVER: 0, Outcome.WITHIN: 1, Outcome.NOT_ENFORCED: 2, None: 3}
    used: Fraction | float = share(row) or Fraction(0)
    if row.value and row.limit_bytes == 0:
        used = math.inf
    return order[row.outcome], -used, row.name
