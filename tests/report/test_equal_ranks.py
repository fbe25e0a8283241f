"""Equal ranks of a test share a row of the terminal's table."""

from dataclasses import replace

from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.report.equal_ranks import with_equal_ranks_together
from pytest_attnmem.report.record import Record
from pytest_attnmem.report.summary import summarise


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
