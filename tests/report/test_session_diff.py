"""The change of each test, and the changes that fail."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_attnmem.budgets.tolerance import NONE, parse_tolerance
from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.session_diff import ChangeKind, Differences, differences

from .rows import records

MIB = 1 << 20
KEPT = Record(
    "a.py::kept", outcome=Outcome.WITHIN, backend="cpu", device="cpu", limit_bytes=9, peak_bytes=5
)
ROW = replace(KEPT, nodeid="a.py::test", limit_bytes=1 << 40, peak_bytes=100 * MIB)
OVER = replace(ROW, outcome=Outcome.OVER, reason="peak 100.0 MiB exceeds budget 1.0 MiB")
EXPECTED = replace(OVER, expected=True)
RAN_OUT = replace(OVER, peak_bytes=0, out_of_memory="tried to allocate 1.0 GiB")
UNPROVEN = replace(ROW, outcome=Outcome.NOT_ENFORCED, reason="a thread was started")
SKIPPED = Record("a.py::test", outcome=Outcome.NOT_ENFORCED, reason="skipped: no GPU")
MEASURED = replace(ROW, outcome=None, limit_bytes=None)
UNSEEN = replace(MEASURED, reason="a thread was started")


def compared(old, new, tolerance="0", environments=({}, {})) -> Differences:
    there, here = environments
    return differences((old, there), (new, here), parse_tolerance(tolerance))


def needs(nbytes: int, row: Record = ROW) -> Record:
    return replace(row, peak_bytes=nbytes)


@pytest.mark.parametrize(
    ("old", "new", "kind", "delta", "fails"),
    [
        (ROW, ROW, ChangeKind.SAME, 0, False),
        (ROW, needs(100 * MIB + 1), ChangeKind.GREW, 1, True),
        (ROW, needs(100 * MIB - 1), ChangeKind.SHRANK, -1, False),
        (ROW, OVER, ChangeKind.NOW_OVER, 0, True),
        (OVER, ROW, ChangeKind.SAME, 0, False),
        (OVER, needs(200 * MIB, OVER), ChangeKind.GREW, 100 * MIB, True),
        (ROW, SKIPPED, ChangeKind.NO_LONGER_MEASURED, None, True),
        (ROW, UNPROVEN, ChangeKind.NO_LONGER_MEASURED, None, True),
        (MEASURED, UNSEEN, ChangeKind.NO_LONGER_MEASURED, None, True),
        (OVER, SKIPPED, ChangeKind.NO_LONGER_MEASURED, None, True),
        (SKIPPED, ROW, ChangeKind.NEWLY_MEASURED, None, False),
        (SKIPPED, OVER, ChangeKind.NEWLY_MEASURED, None, False),
        (UNPROVEN, SKIPPED, ChangeKind.SAME, None, False),
        (None, ROW, ChangeKind.ADDED, None, False),
        (ROW, None, ChangeKind.REMOVED, None, True),
        (OVER, None, ChangeKind.REMOVED, None, True),
        (MEASURED, None, ChangeKind.REMOVED, None, True),
        (SKIPPED, None, ChangeKind.REMOVED_UNMEASURED, None, False),
        (UNPROVEN, None, ChangeKind.REMOVED_UNMEASURED, None, False),
        (ROW, EXPECTED, ChangeKind.SAME, 0, False),
        (ROW, needs(200 * MIB, EXPECTED), ChangeKind.GREW, 100 * MIB, True),
        (EXPECTED, OVER, ChangeKind.NOW_OVER, 0, True),
        (ROW, RAN_OUT, ChangeKind.NOW_OVER, None, True),
        (RAN_OUT, ROW, ChangeKind.NEWLY_MEASURED, None, False),
        (MEASURED, needs(101 * MIB, MEASURED), ChangeKind.GREW, MIB, True),
        (ROW, replace(ROW, backend="simulated:H100"), ChangeKind.OTHER_DEVICE, None, False),
        (SKIPPED, UNPROVEN, ChangeKind.SAME, None, False),
    ],
)
def test_the_fate_of_a_test(old, new, kind, delta, fails) -> None:
    found = compared([row for row in (KEPT, old) if row], [row for row in (KEPT, new) if row])
    (change,) = (change for change in found.changes if change.row.nodeid == "a.py::test")
    assert (change.kind, change.delta, change.fails) == (kind, delta, fails)
    assert (change.old, change.new) == (old, new)
    assert found.failed is fails
    assert found.count(ChangeKind.SAME) == 1 + (kind is ChangeKind.SAME)


@pytest.mark.parametrize(
    ("tolerance", "grown", "kind"),
    [
        ("2%+1MiB", 102 * MIB, ChangeKind.WITHIN_TOLERANCE),
        ("2%+1MiB", 102 * MIB + 1, ChangeKind.GREW),
        ("1%+3MiB", 103 * MIB, ChangeKind.WITHIN_TOLERANCE),
        ("1%+3MiB", 103 * MIB + 1, ChangeKind.GREW),
        ("2%", 102 * MIB + 1, ChangeKind.GREW),
        ("1 MiB", 101 * MIB, ChangeKind.WITHIN_TOLERANCE),
        ("0", 100 * MIB + 1, ChangeKind.GREW),
    ],
)
def test_both_parts_of_a_tolerance_must_be_exceeded(tolerance, grown, kind) -> None:
    found = compared([ROW], [needs(grown)], tolerance)
    assert found.changes[0].kind is kind
    assert found.failed is (kind is ChangeKind.GREW)


def test_what_fails_comes_first_and_of_that_the_largest() -> None:
    rows = (ROW, needs(50 * MIB), needs(101 * MIB), needs(102 * MIB), OVER, ROW)
    new = [replace(row, nodeid=name) for row, name in zip(rows, "abcdef", strict=True)]
    found = compared([replace(ROW, nodeid=name) for name in "abcde"], new)
    assert [change.row.nodeid for change in found.changes] == ["e", "d", "c", "b", "f", "a"]


def test_a_budget_that_lacks_only_an_entry_was_measured() -> None:
    bare = replace(ROW, limit_bytes=None, outcome=Outcome.NOT_ENFORCED)
    for reason in ("no baseline entry; --attnmem-update new", "baseline entry of torch 2.13"):
        old = replace(bare, reason=reason)
        found = compared([old], [replace(old, peak_bytes=101 * MIB)])
        assert [change.kind for change in found.changes] == [ChangeKind.GREW]


def test_regions_and_metrics_are_tests_of_their_own() -> None:
    rows = [ROW, replace(ROW, region="x"), replace(ROW, metric="allocated", allocated_bytes=7)]
    found = compared(rows, [*rows[:2], replace(rows[2], allocated_bytes=8)])
    same = ("peak", ChangeKind.SAME)
    kinds = [(change.row.metric, change.kind) for change in found.changes]
    assert kinds == [("allocated", ChangeKind.GREW), same, same]


def test_a_test_of_several_places_is_compared_in_each() -> None:
    there = replace(ROW, backend="simulated:H100")
    found = compared([ROW, there], [needs(1), there])
    assert [change.kind for change in found.changes] == [ChangeKind.SHRANK, ChangeKind.SAME]
    found = compared([ROW, there], [ROW])
    assert [change.kind for change in found.changes] == [ChangeKind.REMOVED, ChangeKind.SAME]


def test_a_cuda_device_is_what_it_is_and_not_its_number() -> None:
    row = replace(ROW, backend="cuda", device="cuda:0")
    one = {"device": "NVIDIA H100", "compute_capability": "9.0"}
    other = {"device": "NVIDIA A100", "compute_capability": "8.0"}
    assert compared([row], [row], environments=(one, one)).changes[0].kind is ChangeKind.SAME
    found = compared([KEPT, row], [KEPT, row], environments=(one, other))
    assert found.changes[0].kind is ChangeKind.OTHER_DEVICE
    assert compared([ROW], [ROW], environments=(one, other)).changes[0].kind is ChangeKind.SAME


@pytest.mark.parametrize(
    ("old", "new", "there", "here"),
    [
        ([ROW], [replace(ROW, backend="null:H100")], "cpu", "null:H100"),
        ([ROW], [], "cpu", "nowhere"),
        ([ROW], [KEPT], "cpu", "cpu"),
        ([SKIPPED], [SKIPPED], "nowhere", "nowhere"),
    ],
    ids=["another backend", "no tests", "other tests", "nothing measured"],
)
def test_a_comparison_of_nothing_is_refused(old, new, there, here) -> None:
    with pytest.raises(AttnMemError) as error:
        compared(old, new)
    assert str(error.value) == (
        "nothing can be compared: no test was measured on the same device in both sessions"
        f" (the first measured on {there}, the second on {here})"
    )


def test_where_there_was_nothing_all_is_new() -> None:
    assert [change.kind for change in compared([], [ROW]).changes] == [ChangeKind.ADDED]
    assert compared([], []).changes == ()


@settings(deadline=None)  # the machine may be busy
@given(st.lists(records, max_size=5), st.lists(records, max_size=5))
def test_every_test_has_one_fate_and_nothing_grew_from_a_session_to_itself(old, new) -> None:
    def keys(*rows: Record | None) -> set[tuple[str, ...]]:
        return {(row.nodeid, row.region, row.metric, row.place) for row in rows if row}

    try:
        found = differences((old, {}), (new, {}), NONE)
        same = differences((old, {}), (old, {}), NONE)
    except AttnMemError:
        return
    told = [key for change in found.changes for key in keys(change.old, change.new)]
    assert sorted(told) == sorted(keys(*old, *new))
    assert {change.kind for change in same.changes} <= {ChangeKind.SAME}
