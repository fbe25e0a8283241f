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


def test_rows_are_sorted_by_test_and_region() -> None:
    assert names(summarise(ROWS).records) == ["a", "a [inner]", "b", "c", "d"]


def test_the_order_of_arrival_does_not_matter() -> None:
    assert summarise(ROWS) == summarise(reversed(ROWS))


def test_counts() -> None:
    summary = summarise(ROWS)
    assert summary.budgets == 4
    assert [summary.count(outcome) for outcome in (WITHIN, OVER, NOT_ENFORCED)] == [2, 1, 1]


def test_by_share_of_the_budget_then_unproven_then_only_measured() -> None:
    assert names(summarise(ROWS).by_share) == ["a", "d", "b", "c", "a [inner]"]


def test_what_broke_a_budget_of_nothing_used_the_most() -> None:
    broken = Record("z", outcome=OVER, limit_bytes=0, peak_bytes=1)
    assert names(summarise([*ROWS, broken]).by_share)[0] == "z"


def test_the_highest_peak_is_of_any_row() -> None:
    assert summarise(ROWS).highest == ROWS[1]


def test_nothing_measured_has_no_highest_peak() -> None:
    assert summarise([Record("a", outcome=NOT_ENFORCED)]).highest is None
    assert summarise([]) == Summary(())


def test_a_workspace_is_the_largest_that_was_seen_on_its_device() -> None:
    assert summarise(ROWS).workspaces == {"cuda:0": 5, "cpu": 9}


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
    assert [*summarise(rows).states.items()] == [
        ("new", 1),
        ("same", 2),
        ("regressed", 1),
        ("stale", 1),
    ]
    assert summarise(ROWS).states == {}
