"""The lines about the baseline at the end of a session."""

from dataclasses import replace

import pytest

from pytest_attnmem.baselines.entries import Baseline, Entry, Key
from pytest_attnmem.budgets.tolerance import NONE, Tolerance
from pytest_attnmem.report.baseline_notes import changed, notes
from pytest_attnmem.report.record import Record

KIB = 1 << 10


def key(test: str, on: str = "cpu") -> Key:
    return Key(test, "", "peak", on)


BEFORE = {key("same"): Entry(4 * KIB), key("more"): Entry(4 * KIB), key("gone"): Entry(KIB)}
AFTER = {key("same"): Entry(4 * KIB), key("more"): Entry(6 * KIB), key("added"): Entry(2 * KIB)}


def test_a_table_of_what_was_written() -> None:
    title, head, rule, *rows = changed(BEFORE, AFTER, "b.json", "all")
    assert title == "b.json (--attnmem-update all): 1 changed, 1 added, 1 taken out, 1 as before"
    assert head.split() == ["test", "on", "before", "after", "change"]
    assert set(rule) == {"-", " "}
    assert [row.split() for row in rows] == [
        ["added", "cpu", "-", "2.0", "KiB", "added"],
        ["gone", "cpu", "1.0", "KiB", "-", "taken", "out"],
        ["more", "cpu", "4.0", "KiB", "6.0", "KiB", "+2.0", "KiB", "(+50.0%)"],
    ]


def test_moved_entries_are_told_apart_from_added_ones() -> None:
    old, now = "simulated:H100 torch2.13", "simulated:H100 torch2.15"
    before = {
        **{key(test, old): Entry(4 * KIB) for test in ("more", "same", "kept")},
        key("unknown", "simulated:H100"): Entry(KIB),
    }
    after = {
        key("more", now): Entry(6 * KIB),
        key("same", now): Entry(4 * KIB),
        key("unknown", now): Entry(KIB),
        key("kept", old): Entry(4 * KIB),
        key("added", now): Entry(4 * KIB),
    }
    title, _, _, *rows = changed(before, after, "b.json", "all")
    assert title == (
        "b.json (--attnmem-update all): 1 added, 1 moved from an unknown torch to 2.15,"
        " 2 moved from torch 2.13 to 2.15 (1 changed), 1 as before"
    )
    on = ("simulated:H100", "torch2.15")
    assert [row.split() for row in rows] == [
        ["added", *on, "-", "4.0", "KiB", "added"],
        ["more", *on, "4.0", "KiB", "6.0", "KiB", "+2.0", "KiB", "(+50.0%)"],
    ]
    assert changed({key("t", old): Entry(1)}, {key("t", now): Entry(1)}, "b.json", "all") == [
        "b.json (--attnmem-update all): 1 moved from torch 2.13 to 2.15"
    ]


def test_where_nothing_changed_there_is_no_table() -> None:
    formula = {key("same"): replace(BEFORE[key("same")], formula="4*N")}
    assert changed(BEFORE, {**BEFORE, **formula}, "b.json", "new") == [
        "b.json (--attnmem-update new): 3 as before"
    ]
    assert changed({}, {}, "b.json", "new") == [
        "b.json (--attnmem-update new): no entries, because nothing was measured"
    ]


def test_a_long_table_is_cut() -> None:
    many = {key(f"test{number:03}"): Entry(1) for number in range(60)}
    lines = changed({}, many, "b.json", "all")
    assert len(lines) == 1 + 2 + 50 + 1
    assert lines[-1] == "and 10 more"


def row(nodeid: str, state: str) -> Record:
    return Record(nodeid, baseline_state=state)


BASELINE = Baseline("b.json", {key("old", "cuda X"): Entry(1)})


IMPROVED = [row("t", "improved")]
STALE = [row(f"t{number}", "stale") for number in range(7)]


@pytest.mark.parametrize(
    ("rows", "measured", "mode", "line"),
    [
        ([row("t", "same")], [key("old", "cuda X")], None, ""),
        ([], [key("t")], None, "1 new on cpu; --attnmem-update new writes them"),
        (
            [],
            [key("old"), key("t")],
            "prune",
            "2 new on cpu, and it has them for cuda X only; --attnmem-update new writes them",
        ),
        ([], [key("t")], "new", ""),
        ([], [key("t")], "all", ""),
        (IMPROVED, [], None, "1 improved; --attnmem-update all writes it down"),
        (IMPROVED, [], "all", ""),
        (
            STALE,
            [],
            None,
            "7 stale, measured no more: t0, t1, t2, t3, t4 and 2 more; --attnmem-update prune takes"
            " them out",
        ),
    ],
)
def test_what_there_is_to_do(rows, measured, mode, line) -> None:
    found = notes(rows, BASELINE, dict.fromkeys(measured, Entry(1)), mode)
    assert found == ([f"b.json: {line}"] if line else [])


ON = {version: f"cuda H100 sm90 torch{version}" for version in ("2.13", "2.14", "2.15")}


def upgraded(on: str, *needs: int, tolerance: Tolerance | None = None) -> list[str]:
    """The notes of a session that needs so many bytes; each entry has 1000 B on *on*."""
    baseline = Baseline("b.json", {key(str(test), on): Entry(1000) for test in range(len(needs))})
    now = on.replace("torch2.13", "torch2.15") if "torch" in on else f"{on} torch2.15"
    measured = {key(str(test), now): Entry(nbytes) for test, nbytes in enumerate(needs)}
    assert notes([], baseline, measured, "all") == notes([], baseline, measured, "new") == []
    return notes([], baseline, measured, None, tolerance)


@pytest.mark.parametrize(
    ("needs", "told"),
    [
        ((1001, 2000, 3000, 1, 1000, 1000), "3 tests need more, 1 less, 2 the same"),
        ((1001,), "1 test needs more"),
        ((1, 2), "2 tests need less"),
        ((1000,), "1 test needs the same"),
    ],
)
def test_an_upgrade_of_torch_says_what_it_did(needs: tuple[int, ...], told: str) -> None:
    for on, recorded in ((" torch2.13", "torch 2.13"), ("", "an unknown torch")):
        assert upgraded(f"cpu threads2{on}", *needs) == [
            f"b.json: recorded on {recorded}, this is 2.15: {told}; --attnmem-update all moves"
            " them, new keeps both"
        ]


def test_an_upgrade_is_compared_within_the_tolerance() -> None:
    (line,) = upgraded(ON["2.13"], 1001)  # less than the noise of a device
    assert "this is 2.15: 1 test needs the same;" in line
    (line,) = upgraded(ON["2.13"], 1001, tolerance=NONE)
    assert "this is 2.15: 1 test needs more;" in line


def test_where_versions_are_kept_side_by_side_nothing_moves() -> None:
    kept = {key(test, ON[version]): Entry(1) for test in "ab" for version in ("2.13", "2.14")}
    baseline = Baseline("b.json", {**kept, key("c", ON["2.13"]): Entry(1)})
    measured = {key(test, ON["2.15"]): Entry(1) for test in "abcd"}
    assert notes([], baseline, measured, None) == [
        "b.json: recorded on torch 2.13, this is 2.15: 1 test needs the same; --attnmem-update new"
        " writes them",
        "b.json: recorded on torch 2.14, this is 2.15: 2 tests need the same; --attnmem-update new"
        " writes them",
        "b.json: 1 new on cuda H100 sm90 torch2.15; --attnmem-update new writes them",
    ]
