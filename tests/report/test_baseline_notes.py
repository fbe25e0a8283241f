"""The lines about the baseline at the end of a session."""

from dataclasses import replace

import pytest

from pytest_attnmem.baselines.entries import Baseline, Entry, Key
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
    assert head.split() == ["test", "on", "before", "KiB", "after", "KiB", "change"]
    assert set(rule) == {"-", " "}
    assert [row.split() for row in rows] == [
        ["added", "cpu", "-", "2.0", "added"],
        ["gone", "cpu", "1.0", "-", "taken", "out"],
        ["more", "cpu", "4.0", "6.0", "+2,048", "B", "(+50.0%)"],
    ]


def test_where_nothing_changed_there_is_no_table() -> None:
    formula = {key("same"): replace(BEFORE[key("same")], formula="4*N")}
    assert changed(BEFORE, {**BEFORE, **formula}, "b.json", "new") == [
        "b.json (--attnmem-update new): 3 as before"
    ]
    assert changed({}, {}, "b.json", "new") == ["b.json (--attnmem-update new): no entries"]


def test_a_long_table_is_cut() -> None:
    many = {key(f"test{number:03}"): Entry(1) for number in range(60)}
    lines = changed({}, many, "b.json", "all")
    assert len(lines) == 1 + 2 + 50 + 1
    assert lines[-1] == "and 10 more"


def row(nodeid: str, state: str) -> Record:
    return Record(nodeid, baseline_state=state)


BASELINE = Baseline("b.json", {key("old", "cuda X"): Entry(1)})


@pytest.mark.parametrize(
    ("rows", "measured", "mode", "lines"),
    [
        ([row("t", "same")], [key("old", "cuda X")], None, []),
        ([], [key("t")], None, ["b.json: 1 new on cpu; --attnmem-update new writes them"]),
        (
            [],
            [key("old"), key("t")],
            "prune",
            [
                "b.json: 2 new on cpu, and it has them for cuda X only; --attnmem-update new writes"
                " them"
            ],
        ),
        ([], [key("t")], "new", []),
        ([], [key("t")], "all", []),
        (
            [row("t", "improved")],
            [],
            None,
            ["b.json: 1 improved; --attnmem-update all writes it down"],
        ),
        ([row("t", "improved")], [], "all", []),
        (
            [row(f"t{number}", "stale") for number in range(7)],
            [],
            None,
            [
                "b.json: 7 stale, measured no more: t0, t1, t2, t3, t4 and 2 more; --attnmem-update"
                " prune takes them out"
            ],
        ),
    ],
)
def test_what_there_is_to_do(
    rows: list[Record], measured: list[Key], mode: str | None, lines: list[str]
) -> None:
    assert notes(rows, BASELINE, measured, mode) == lines
