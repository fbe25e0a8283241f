"""The printed summary line and table."""

import re
from dataclasses import replace

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

WITHIN, OVER, NOT_ENFORCED = Outcome.WITHIN, Outcome.OVER, Outcome.NOT_ENFORCED
KIB = 1024

ROW = Record(
    "a.py::test_a",
    outcome=WITHIN,
    backend="cpu",
    device="cpu",
    shape={"B": 1, "N": 64, "M": 64},
    limit_bytes=4 * KIB,
    peak_bytes=3 * KIB,
    workspace_bytes=512,
)
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
    ("outcomes", "hint", "line"),
    [
        (
            [WITHIN, OVER, WITHIN, NOT_ENFORCED, None],
            True,
            "attnmem: 4 budgets, 2 within, 1 over, 1 not enforced (--attnmem-report for the table)",
        ),
        ([WITHIN], False, "attnmem: 1 budget, 1 within, 0 over, 0 not enforced"),
        ([None], False, "attnmem: 0 budgets, 0 within, 0 over, 0 not enforced"),
    ],
    ids=["several", "one", "only measured"],
)
def test_line(outcomes: list[Outcome | None], hint: bool, line: str) -> None:
    rows = [Record(f"test_{place}", outcome=outcome) for place, outcome in enumerate(outcomes)]
    assert render_line(summarise(rows), hint) == line


def test_the_line_has_how_rows_compare_with_the_baseline() -> None:
    rows = [
        replace(ROW, region=state, baseline_state=state) for state in ("same", "improved", "new")
    ]
    assert render_line(summarise(rows), True) == (
        "attnmem: 3 budgets, 3 within, 0 over, 0 not enforced; baseline: 1 new, 1 same, 1 improved"
        " (--attnmem-report for the table)"
    )


@pytest.mark.parametrize("state", ["new", "stale"])
def test_a_row_without_one_of_the_two_numbers_says_how_it_compares(state: str) -> None:
    before = 1 if state == "stale" else None
    row = replace(ROW, peak_bytes=None, baseline_bytes=before, baseline_state=state)
    assert "Δ baseline  outcome" in table(row)[0]
    assert table(row)[-1].split()[-2:] == [state, "within"]


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
        ("within", "green"),
        ("over", "red"),
        ("not enforced", "yellow"),
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


def test_the_change_from_a_baseline_is_a_column_only_where_there_is_one() -> None:
    assert "Δ baseline" not in table(ROW)[0]
    assert "Δ baseline  outcome" in table(ROW, replace(ROW, baseline_bytes=1))[0]


@pytest.mark.parametrize(("limit", "percent"), [(100, "999.0"), (99, ">999"), (1, ">999")], ids=str)
def test_a_share_far_over_is_not_spelled_out(limit: int, percent: str) -> None:
    row = replace(ROW, outcome=OVER, limit_bytes=limit, peak_bytes=999)
    assert f"  {percent}  over" in table(row)[-1]


def test_what_was_to_be_only_measured_and_was_not_says_so() -> None:
    row = Record("a.py::test_c", "x", reason="a thread was started")
    assert table(row)[-1].endswith("  not measured")
    assert notes(row) == ["not measured  a.py::test_c [x]: a thread was started"]


def test_a_long_reason_is_shortened() -> None:
    row = replace(SKIPPED, reason="why\n" * 99)
    (note,) = notes(row)
    assert note == "not enforced  a.py::test_b: " + r"why\n" * 39 + "w..."


def test_where_nothing_was_measured_there_is_no_peak_and_no_workspace() -> None:
    assert notes(SKIPPED) == ["not enforced  a.py::test_b: skipped: no GPU"]


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


def test_the_change_since_another_torch_names_it() -> None:
    row = replace(ROW, baseline_bytes=5 * KIB, baseline_torch="2.13", baseline_state="other torch")
    assert "-2.0 KiB (torch 2.13)  within" in table(row)[2]


@pytest.mark.parametrize(
    ("baseline", "shown"), [(3 * KIB, "+0 B"), (0, "+3.0 KiB"), (5 * KIB, "-2.0 KiB")]
)
def test_the_change_from_the_baseline_has_its_sign(baseline: int, shown: str) -> None:
    assert f"  {shown}  within" in table(replace(ROW, baseline_bytes=baseline))[-1]


def test_symbols_that_say_nothing_of_their_own_are_left_out() -> None:
    shape = {"H": 8, "Hkv": 2, "N": 4, "M": 9, "d": 3, "dv": 3, "itemsize": 4, "window": 5}
    assert "  H=8 Hkv=2 N=4 M=9 d=3 itemsize=4 window=5  " in table(replace(ROW, shape=shape))[-1]


def test_a_name_is_whole_where_the_width_has_no_limit() -> None:
    for nodeid in ("a" * 80 + "::test[8]", f"tests/a/x.py::test[{'8' * 90}]"):
        assert table(replace(ROW, nodeid=nodeid))[-1].startswith(f"{nodeid}  ")


def test_names_that_look_like_numbers_stay_as_they_are() -> None:
    assert table(replace(ROW, nodeid="1e3"))[-1].startswith("1e3  ")


def test_no_rows_is_an_empty_table() -> None:
    assert len(table()) == 2
    assert notes() == []


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


def test_ranks_that_differ_in_no_number_share_a_row():
    assert names(row(rank) for rank in range(12)) == ["test_step[rank0..11]"]
    assert names(row(rank, name="test[a-rank{}-512]") for rank in (0, 1, 3, 10, 11)) == [
        "test[a-rank0..1,3,10..11-512]"
    ]
    (one,) = with_equal_ranks_together(summarise([row(0), row(1)])).records
    assert (one.shape, one.peak_bytes) == ({"W": 16}, 8)


def test_a_rank_with_another_number_has_its_own_row():
    assert names([row(0), row(1, 7), row(2)]) == ["test_step[rank0,2]", "test_step[rank1]"]
    assert names([row(0), row(1, reason="read")]) == ["test_step[rank0]", "test_step[rank1]"]
    assert names([row(0), replace(row(1), metric="retained")]) == [
        "test_step[rank0]",
        "test_step[rank1]",
    ]


def test_other_tests_keep_their_rows():
    others = ["test_a", "test_b[x]", "test_lora[low-rank16]", "test_lora[low-rank8]"]
    assert names(map(Record, others)) == others
