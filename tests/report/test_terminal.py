"""The printed summary line and table."""

import re
from dataclasses import replace
from typing import Any

import pytest

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise
from pytest_attnmem.report.terminal import (
    colour_of,
    render_line,
    render_notes,
    render_reasons,
    render_table,
    with_equal_ranks_together,
)

from .rows import KEPT

WITHIN, OVER, NOT_ENFORCED = Outcome.WITHIN, Outcome.OVER, Outcome.NOT_ENFORCED
KIB = 1024

ROW = replace(KEPT, workspace_bytes=512)
SKIPPED = Record("a.py::test_b", outcome=NOT_ENFORCED, reason="skipped: no GPU")
ONLY_MEASURED = Record(
    "a.py::test_c", "x", metric="retained", retained_bytes=1, peak_bytes=5, device="cuda:0"
)


def table(*rows: Record, width: int = 0) -> list[str]:
    """Returns the lines of the table."""
    found = render_table(summarise(rows), width)
    return [f"{line.text}{line.outcome}{line.rest}".rstrip() for line in found]


def notes(*rows: Record) -> list[str]:
    """Returns the lines under the table."""
    return render_notes(summarise(rows))


@pytest.mark.parametrize(
    ("rows", "line"),
    [
        (
            [(WITHIN, ""), (OVER, ""), (WITHIN, ""), (NOT_ENFORCED, ""), (None, "")],
            "4 budgets, 2 within, 1 over, 1 not enforced",
        ),
        ([(WITHIN, "")], "1 budget, 1 within, 0 over, 0 not enforced"),
        ([(None, "")], "0 budgets, 0 within, 0 over, 0 not enforced"),
        (
            [(WITHIN, "same"), (WITHIN, "improved"), (WITHIN, "new")],
            "3 budgets, 3 within, 0 over, 0 not enforced; baseline: 1 new, 1 same, 1 improved",
        ),
    ],
    ids=["several", "one", "only measured", "baseline"],
)
def test_line(rows: list[tuple[Outcome | None, str]], line: str) -> None:
    found = summarise(
        Record(f"test_{place}", outcome=outcome, baseline_state=state)
        for place, (outcome, state) in enumerate(rows)
    )
    assert render_line(found, False) == f"attnmem: {line}"
    assert render_line(found, True) == f"attnmem: {line} (--attnmem-report for the table)"


def test_the_table() -> None:
    assert table(SKIPPED, ROW, ONLY_MEASURED) == [
        "test              shape     backend   budget            peak  used %  outcome",
        "----------------  --------  -------  -------  --------------  ------  ------------",
        "a.py::test_a      B=1 N=64  cpu      4.0 KiB         3.0 KiB    75.0  within",
        "a.py::test_b                               -               -          not enforced",
        "a.py::test_c [x]            cuda:0         -  1 B (retained)          measured",
    ]


LONG = "tests/a.py::test_of_a_long_name_that_goes_on[N=64-d=32]"


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (
            200,
            [
                "test                                                     shape          backend"
                "   budget     peak  used %  outcome",
                f"{LONG}  B=1 N=64 d=32  cpu      4.0 KiB  3.0 KiB    75.0  within",
            ],
        ),
        (
            80,
            [
                "backend   budget     peak  used %  outcome  test",
                f"cpu      4.0 KiB  3.0 KiB    75.0  within   {LONG}",
            ],
        ),
        (50, [" budget     peak  outcome  test", f"4.0 KiB  3.0 KiB  within   {LONG}"]),
        (20, [" budget     peak  outcome  test", f"4.0 KiB  3.0 KiB  within   {LONG}"]),
    ],
)
def test_names_are_whole_and_the_last_column_of_a_narrow_table(width, lines) -> None:
    rows = [replace(ROW, nodeid=LONG, shape={"B": 1, "N": 64, "d": 32}), replace(ROW, nodeid="b")]
    drawn = table(*rows, width=width)
    assert [drawn[0], drawn[3]] == lines
    assert max(map(len, drawn[:2])) <= max(width, 31)
    assert drawn[4:] == ([] if width >= 80 else ["all on cpu"])


def test_the_outcome_has_a_colour() -> None:
    expected = replace(ROW, outcome=OVER, expected=True)
    over = replace(ROW, outcome=OVER)
    colours = [render_table(summarise([row]))[-1][1:3] for row in (ROW, over, SKIPPED, expected)]
    assert colours == [
        *(("within", "green"), ("over", "red"), ("not enforced", "yellow")),
        ("expected failure", "yellow"),
    ]
    assert render_table(summarise([ONLY_MEASURED]))[-1].colour == ""
    sessions = [[ROW, over, SKIPPED], [ROW, SKIPPED], [expected, ROW], [ROW], [ONLY_MEASURED], []]
    assert [colour_of(summarise(rows)) for rows in sessions] == [
        *("red", "yellow", "yellow", "green", "", "")
    ]


def test_the_notes_under_the_table() -> None:
    assert notes(SKIPPED, ROW, ONLY_MEASURED) == [
        "session peak  3.0 KiB in a.py::test_a",
        "workspace     512 B on cpu, from library warm-up, not counted in any test",
        "workspace     0 B on cuda:0, from library warm-up, not counted in any test",
        "not enforced  a.py::test_b: skipped: no GPU",
    ]


def test_what_was_not_measured_is_noted_with_a_shortened_reason() -> None:
    row = Record("a.py::test_c", "x", reason="a thread was started")
    assert table(row)[-1].endswith("  not measured")
    assert notes(row) == ["not measured  a.py::test_c [x]: a thread was started"]
    assert notes(SKIPPED) == ["not enforced  a.py::test_b: skipped: no GPU"]
    (note,) = notes(replace(SKIPPED, reason="why\n" * 99))
    assert note == "not enforced  a.py::test_b: " + r"why\n" * 39 + "w..."
    assert (len(table()), notes()) == (2, [])


def test_rows_are_sorted_by_share_of_the_budget() -> None:
    rows = [replace(ROW, nodeid=f"test_{peak}", peak_bytes=peak) for peak in (100, 5000, 4096)]
    assert [line.split()[0] for line in table(*rows)[2:]] == ["test_5000", "test_4096", "test_100"]


def test_each_size_has_its_own_unit_and_two_that_differ_never_read_alike() -> None:
    rows = [
        replace(ROW, nodeid=f"test_{limit}", limit_bytes=limit, peak_bytes=peak)
        for limit, peak in [(5 * KIB**3, 1), (64 * KIB, 64 * KIB), (KIB**2, KIB**2 - 1), (0, 0)]
    ]
    assert {tuple(re.split("  +", line)[3:5]) for line in table(*rows)[2:]} == {
        ("5.0 GiB", "1 B"),
        ("64.0 KiB", "64.0 KiB"),
        ("1,048,576 B", "1,048,575 B"),
        ("0 B", "0 B"),
    }


@pytest.mark.parametrize(
    ("changes", "shown"),
    [
        ({"baseline_bytes": 3 * KIB}, "+0 B  within"),
        ({"baseline_bytes": 0}, "+3.0 KiB  within"),
        ({"baseline_bytes": 5 * KIB}, "-2.0 KiB  within"),
        ({"baseline_bytes": 5 * KIB, "baseline_torch": "2.13"}, "-2.0 KiB (torch 2.13)  within"),
        ({"peak_bytes": None, "baseline_state": "new"}, "new  within"),
        ({"peak_bytes": None, "baseline_bytes": 1, "baseline_state": "stale"}, "stale  within"),
        ({"outcome": OVER, "limit_bytes": 100, "peak_bytes": 999}, "999.0  over"),
        ({"outcome": OVER, "limit_bytes": 99, "peak_bytes": 999}, ">999  over"),
        ({"outcome": OVER, "limit_bytes": 1, "peak_bytes": 999}, ">999  over"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_change_from_a_baseline_has_its_sign_and_a_large_share_is_cut(
    changes: dict[str, Any], shown: str
) -> None:
    head, *_, line = table(replace(ROW, **changes))
    assert line.endswith(f"  {shown}")
    assert ("Δ baseline  outcome" in head) == any("baseline" in name for name in changes)


def test_symbols_that_say_nothing_of_their_own_are_left_out() -> None:
    shape = {"H": 8, "Hkv": 2, "N": 4, "M": 9, "d": 3, "dv": 3, "itemsize": 4, "window": 5}
    assert "  H=8 Hkv=2 N=4 M=9 d=3 itemsize=4 window=5  " in table(replace(ROW, shape=shape))[-1]


@pytest.mark.parametrize(
    "nodeid", ["1e3", "a" * 80 + "::test[8]", f"tests/a/x.py::test[{'8' * 90}]"], ids=len
)
def test_a_name_is_whole_and_no_number_where_the_width_has_no_limit(nodeid: str) -> None:
    assert table(replace(ROW, nodeid=nodeid))[-1].startswith(f"{nodeid}  ")


@pytest.mark.parametrize(
    ("counts", "shown", "last"),
    [
        ([20, 5, 3, 1], 4, "  1 not enforced: reason 3"),
        ([40, 5, 3, 1, 1], 3, "  2 not enforced for 2 other reasons; --attnmem-report lists each"),
        ([1] * 39, 10, "  29 not enforced for 29 other reasons; --attnmem-report lists each"),
    ],
    ids=["all", "a short tail", "a long tail"],
)
def test_as_many_reasons_as_most_rows_have(counts: list[int], shown: int, last: str) -> None:
    rows = [
        replace(SKIPPED, nodeid=f"a.py::test[{place}-{number}]", reason=f"reason {place}")
        for place, count in enumerate(counts)
        for number in range(count)
    ]
    lines = render_reasons(summarise(rows))
    assert sum(": reason" in line for line in lines) == shown
    assert lines[-1] == last


def row(rank, peak=8, name="test_step[rank{}]", **more):
    given = {"outcome": Outcome.WITHIN, "peak_bytes": peak, "limit_bytes": 9, "duration_s": rank}
    return Record(name.format(rank), shape={"W": 16, "rank": rank}, **{**given, **more})


def names(rows):
    return [one.nodeid for one in with_equal_ranks_together(summarise(rows)).records]


def test_ranks_that_differ_in_no_number_share_a_row_and_nothing_else_does():
    assert names(row(rank) for rank in range(12)) == ["test_step[rank0..11]"]
    assert names(row(rank, name="test[a-rank{}-512]") for rank in (0, 1, 3, 10, 11)) == [
        "test[a-rank0..1,3,10..11-512]"
    ]
    (one,) = with_equal_ranks_together(summarise([row(0), row(1)])).records
    assert (one.shape, one.peak_bytes) == ({"W": 16}, 8)
    # One with another number has its own row.
    assert names([row(0), row(1, 7), row(2)]) == ["test_step[rank0,2]", "test_step[rank1]"]
    for other in (row(1, reason="read"), replace(row(1), metric="retained")):
        assert names([row(0), other]) == ["test_step[rank0]", "test_step[rank1]"]
    # So have other tests.
    others = ["test_a", "test_b[x]", "test_lora[low-rank16]", "test_lora[low-rank8]"]
    assert names(map(Record, others)) == others
