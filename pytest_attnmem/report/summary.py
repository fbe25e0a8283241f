"""Counts the results of all budgets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from ..baselines.entries import State
from ..budgets.verdict import Outcome
from ..suggestion import did_you_mean
from ..symbols.attention_shape import AttentionShape
from ..symbols.names import SYMBOLS
from .record import Record

Rows = Mapping[tuple[str, str], list[Record]]
"""The rows by process and test."""

_ORDER = (Outcome.WITHIN, Outcome.OVER, Outcome.NOT_ENFORCED)


@dataclass(frozen=True, slots=True)
class Summary:
    """The rows of a session and their totals."""

    records: tuple[Record, ...]
    """Sorted by test and region."""

    @property
    def budgets(self) -> int:
        """Returns the number of rows with a budget."""
        return sum(row.outcome is not None for row in self.records)

    def count(self, outcome: Outcome) -> int:
        """Returns the number of rows with that outcome, without the expected failures."""
        return sum(row.outcome is outcome and not row.is_expected_failure for row in self.records)

    @property
    def expected(self) -> int:
        """Returns the number of rows over a budget in tests that failed as expected."""
        return sum(row.is_expected_failure for row in self.records)

    @property
    def counts(self) -> dict[str, int]:
        """Returns outcome → number of rows; expected failures only if there are some."""
        counts = {outcome.value: self.count(outcome) for outcome in _ORDER}
        if self.expected:
            counts["expected failure" + "s" * (self.expected > 1)] = self.expected
        return counts

    @property
    def reasons(self) -> dict[str, int]:
        """Returns reason of a budget that was not enforced → number of rows, most first."""
        unproven = (row for row in self.records if row.outcome is Outcome.NOT_ENFORCED)
        return dict(Counter(row.reason for row in unproven).most_common())

    @property
    def states(self) -> dict[str, int]:
        """Returns state against the baseline → number of rows; empty without a baseline.

        An expected failure does not count as a regression.
        """
        counts = {state.value: 0 for state in State}
        for row in self.records:
            if row.baseline_state and not row.is_expected_failure:
                counts[row.baseline_state] = counts.get(row.baseline_state, 0) + 1
        return {state: count for state, count in counts.items() if count}

    @property
    def by_share(self) -> tuple[Record, ...]:
        """Returns the rows over, then within, by their share of the budget; then the others."""
        return tuple(sorted(self.records, key=_rank))

    @property
    def highest(self) -> Record | None:
        """Returns the row with the highest peak of the session."""
        measured = [row for row in self.records if row.peak_bytes is not None]
        return max(measured, key=lambda row: row.peak_bytes or 0, default=None)

    @property
    def workspaces(self) -> dict[str, int]:
        """Returns device → bytes that the warm-up of its libraries left allocated."""
        sizes: dict[str, int] = {}
        for row in self.records:
            if row.place:
                sizes[row.place] = max(row.workspace_bytes, sizes.get(row.place, 0))
        return sizes


def summarise(records: Iterable[Record]) -> Summary:
    """Returns the summary of a session's rows."""
    return Summary(tuple(sorted(records, key=lambda row: (row.nodeid, row.region))))


def over(rows: Rows, failed: Collection[str]) -> list[str]:
    """Returns the tests over a budget that neither failed nor were expected to fail."""
    return _tests(rows, failed, lambda row: row.fails)


def unproven(rows: Rows, failed: Collection[str]) -> list[str]:
    """Returns the tests with a budget that was not enforced, unless they failed."""
    return _tests(rows, failed, lambda row: row.outcome is Outcome.NOT_ENFORCED)


def without_value(rows: Rows, budget: str, symbols: Iterable[str]) -> tuple[str, str]:
    """Returns a symbol of a budget to which no row gives a value, and a hint; or two empty texts.

    There is none if a row has that budget in bytes.
    """
    held = [row for own in rows.values() for row in own if row.budget == budget]
    if not held or any(row.limit_bytes is not None for row in held):
        return "", ""
    known = {name for own in rows.values() for row in own for name in row.shape}
    missing = AttentionShape(dict.fromkeys(known, 0)).missing(sorted(symbols))
    if not missing:
        return "", ""
    return missing[0], did_you_mean(missing[0], {*SYMBOLS, *known}, 0.75)


def _tests(rows: Rows, failed: Collection[str], fits: Callable[[Record], bool]) -> list[str]:
    found = (nodeid for (_, nodeid), own in rows.items() if any(map(fits, own)))
    return [nodeid for nodeid in dict.fromkeys(found) if nodeid not in failed]


def share(row: Record) -> Fraction | None:
    """Returns the exact used share of the budget, or None if it is unknown."""
    if row.value is None or not row.limit_bytes or row.out_of_memory:
        return None
    return Fraction(row.value, row.limit_bytes)


def _rank(row: Record) -> tuple[int, Fraction | float, str]:
    order = {Outcome.OVER: 0, Outcome.WITHIN: 2, Outcome.NOT_ENFORCED: 3, None: 4}
    used: Fraction | float = share(row) or Fraction(0)
    if row.out_of_memory or (row.value and row.limit_bytes == 0):
        used = math.inf
    return order[row.outcome] + row.is_expected_failure, -used, row.name
