"""The rows that tell a bad commit from a good one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..budgets.tolerance import Tolerance
from ..commits.warm_process import Row, Sample, named
from ..errors import AttnMemError
from ..report.record import Record
from .search import State


@dataclass(frozen=True, slots=True)
class Criterion:
    """A commit is bad if one of the rows is over its budget, or above its level."""

    levels: Mapping[Row, int | None]
    """The most bytes of a good commit; None: the row's own budget decides."""

    @property
    def by_budget(self) -> bool:
        """Returns True if budgets decide."""
        return None in self.levels.values()

    def bad_rows(self, sample: Sample) -> list[Row]:
        """Returns the rows that are bad in a sample, the largest growth first."""
        bad = [row for row, level in self.levels.items() if _is_bad(sample.rows.get(row), level)]
        return sorted(bad, key=lambda row: -(sample.rows[row].value or 0))

    def state(self, sample: Sample) -> State:
        """Returns the state of a commit; it is skipped if a row is missing and no other is bad."""
        if self.bad_rows(sample):
            return State.BAD
        return State.GOOD if self.levels.keys() <= sample.rows.keys() else State.SKIPPED

    def why_skipped(self, sample: Sample) -> str:
        """Returns the reason why a commit is skipped."""
        missing = next(row for row in self.levels if row not in sample.rows)
        return sample.problem or f"{named(missing)} was not measured"


def _is_bad(row: Record | None, level: int | None) -> bool:
    if row is None:
        return False
    if row.out_of_memory:
        return True
    return row.fails or row.is_expected_failure if level is None else (row.value or 0) > level


def criterion(good: Sample, bad: Sample, grew: bool, tolerance: Tolerance) -> Criterion:
    """Returns what tells the ends apart: a budget that only the bad end exceeds, else growth.

    Args:
        good: the rows of the good end.
        bad: the rows of the bad end.
        grew: True if growth decides even where a budget is exceeded.
        tolerance: the growth that does not count.

    Raises:
        AttnMemError: the ends have no row in common, or none is worse at the bad end.
    """
    shared = [row for row in bad.rows if row in good.rows]
    if not shared:
        raise AttnMemError(_nothing_shared(good, bad))
    over = {row for row in shared if _is_bad(bad.rows[row], None)}
    already = [row for row in shared if row in over and _is_bad(good.rows[row], None)]
    newly = [row for row in shared if row in over and row not in already]
    if newly and not grew:
        return Criterion(dict.fromkeys(newly))
    levels: dict[Row, int | None] = {}
    for row in shared:
        before = good.rows[row]
        if before.value is None or before.out_of_memory:
            continue
        level = before.value + tolerance.allowance(before.value)
        if _is_bad(bad.rows[row], level):
            levels[row] = level
    if levels:
        return Criterion(levels)
    if already:
        raise AttnMemError(
            f"{named(already[0])} is over its budget at the good end already, and did not grow;"
            " name an earlier good commit"
        )
    tests = f"{len(shared)} result{'' if len(shared) == 1 else 's'}"
    raise AttnMemError(
        f"the bad end is good: of {tests} none is over its budget or grew since the good end"
    )


def _nothing_shared(good: Sample, bad: Sample) -> str:
    for end, sample in (("good", good), ("bad", bad)):
        if not sample.rows:
            why = sample.problem or "no test ran"
            hint = "; --tests-from bad runs the bad end's tests there" if end == "good" else ""
            return f"nothing was measured at the {end} end: {why}{hint}"
    return (
        f"{named(next(iter(bad.rows)))} is not measured at the good end{_because(good)};"
        " --tests-from bad runs the bad end's tests at every commit"
    )


def _because(sample: Sample) -> str:
    return f", where {sample.problem}" if sample.problem else ""
