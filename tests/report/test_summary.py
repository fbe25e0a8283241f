"""Counting rows, and their order."""

from fractions import Fraction

import pytest

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import Summary, share, summarise

WITHIN, OVER, NOT_ENFORCED = Outcome.WITHIN, Outcome.OVER, Outcome.NOT_ENFORCED

ROWS = (
    Record("b", outcome=WITHIN, limit_bytes=100, peak_bytes=50, device="cpu", workspace_bytes=9),
    Record("a", "inner", peak_bytes=900, device="cpu"),
    Record("a", outcome=OVER, limit_bytes=10, peak_bytes=20, device="cuda:0", workspace_bytes=5),
    Record("c", outcome=NOT_ENFORCED, limit_bytes=10),
    Record("d", outcome=WITHIN, limit_bytes=100, peak_bytes=99, device="cpu", workspace_bytes=4),
)


def names(rows: tuple[Record, ...]) -> list[str]:
    return [row.name for row in rows]


def test_rows_are_sorted_by_test_and_region_or_by_share_of_the_budget() -> None:
    assert names(summarise(ROWS).records) == ["a", "a [inner]", "b", "c", "d"]
    assert summarise(ROWS) == summarise(reversed(ROWS))
    # Then those that are not enforced, and those that are only measured.
    assert names(summarise(ROWS).by_share) == ["a", "d", "b", "c", "a [inner]"]
    broken = Record("z", outcome=OVER, limit_bytes=0, peak_bytes=1)
    assert names(summarise([*ROWS, broken]).by_share)[0] == "z"


def test_totals() -> None:
    summary = summarise(ROWS)
    assert summary.budgets == 4
    assert [summary.count(outcome) for outcome in (WITHIN, OVER, NOT_ENFORCED)] == [2, 1, 1]
    assert summary.highest == ROWS[1]
    assert summary.workspaces == {"cuda:0": 5, "cpu": 9}
    assert summarise([Record("a", outcome=NOT_ENFORCED)]).highest is None
    assert summarise([]) == Summary(())


@pytest.mark.parametrize(
    ("row", "used"),
    [
        (Record("a", limit_bytes=3, peak_bytes=1), Fraction(1, 3)),
        (Record("a", metric="retained", limit_bytes=3, peak_bytes=1, retained_bytes=6), 2),
        (Record("a", limit_bytes=3), None),
        (Record("a", peak_bytes=3), None),
        (Record("a", limit_bytes=0, peak_bytes=3), None),
    ],
    ids=["peak", "metric", "no value", "no limit", "no budget to share"],
)
def test_share(row: Record, used: Fraction | None) -> None:
    assert share(row) == used


def test_states_are_counted_in_their_order_where_there_are_any() -> None:
    states = ("stale", "same", "", "regressed", "same", "new")
    rows = [Record(f"t{number}", baseline_state=state) for number, state in enumerate(states)]
    counts = [("new", 1), ("same", 2), ("regressed", 1), ("stale", 1)]
    assert [*summarise(rows).states.items()] == counts
    assert summarise(ROWS).states == {}
