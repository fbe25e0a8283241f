"""The rows that tell a bad commit from a good one."""

from dataclasses import replace

import pytest

from pytest_attnmem.bisection.bisection import criterion, named
from pytest_attnmem.bisection.search import State
from pytest_attnmem.budgets.tolerance import NONE, parse_tolerance
from pytest_attnmem.budgets.verdict import Outcome
from pytest_attnmem.commits.warm_process import Sample
from pytest_attnmem.errors import AttnMemError
from pytest_attnmem.report.record import Record

A, B = ("t.py::a", "", "peak"), ("t.py::b", "", "peak")


def row(nbytes, limit=None) -> Record:
    over = limit is not None and nbytes > limit
    outcome = Outcome.OVER if over else Outcome.WITHIN
    return Record("t.py::a", outcome=outcome, peak_bytes=nbytes, limit_bytes=limit)


def sample(problem="", **rows) -> Sample:
    return Sample({("t.py::" + name, "", "peak"): one for name, one in rows.items()}, problem)


def test_a_budget_decides_if_only_the_bad_end_exceeds_it():
    rule = criterion(sample(a=row(10, 20), b=row(1, 9)), sample(a=row(30, 20), b=row(8, 9)),
                     False, NONE)  # fmt: skip
    assert rule.by_budget
    assert rule.levels == {A: None}
    assert rule.state(sample(a=row(20, 20), b=row(8, 9))) is State.GOOD
    assert rule.state(sample(a=row(21, 20))) is State.BAD
    assert rule.state(sample("broken", b=row(8, 9))) is State.SKIPPED
    assert rule.why_skipped(sample("broken")) == "broken"
    assert rule.why_skipped(sample(b=row(8, 9))) == "t.py::a was not measured"


def test_growth_decides_otherwise_or_if_asked():
    ends = sample(a=row(10), b=row(5, 9)), sample(a=row(11), b=row(10, 9))
    assert criterion(*ends, False, NONE).levels == {B: None}
    assert criterion(*ends, True, NONE).levels == {A: 10, B: 5}
    assert criterion(*ends, True, parse_tolerance("2B")).levels == {B: 7}
    rule = criterion(*ends, True, NONE)
    assert rule.state(sample(a=row(10), b=row(5))) is State.GOOD
    assert rule.state(sample(a=row(10), b=row(6))) is State.BAD
    assert rule.bad_rows(sample(a=row(11), b=row(12))) == [B, A]
    full = replace(row(0), out_of_memory="128 GiB", outcome=Outcome.OVER)
    assert rule.state(sample(a=full)) is State.BAD


def test_a_budget_that_was_exceeded_already_decides_by_growth():
    rule = criterion(sample(a=row(30, 20)), sample(a=row(40, 20)), False, NONE)
    assert rule.levels == {A: 30}


@pytest.mark.parametrize(
    ("good", "bad", "message"),
    [
        (
            sample(a=row(30, 20)),
            sample(a=row(30, 20)),
            "t.py::a is over its budget at the good end already, and did not grow; name an earlier"
            " good commit",
        ),
        (
            sample(a=row(10), b=row(5)),
            sample(a=row(10), b=row(4)),
            "the bad end is good: of 2 results none is over its budget or grew since the good end",
        ),
        (
            sample("ModuleNotFoundError: No module named 'x'"),
            sample(a=row(1)),
            "nothing was measured at the good end: ModuleNotFoundError: No module named 'x';"
            " --tests-from bad runs the bad end's tests there",
        ),
        (sample(a=row(1)), sample(), "nothing was measured at the bad end: no test ran"),
        (
            sample(a=row(1)),
            sample(b=row(1)),
            "t.py::b is not measured at the good end; --tests-from bad runs the bad end's tests at"
            " every commit",
        ),
    ],
)
def test_ends_that_cannot_be_told_apart_are_refused(good, bad, message):
    with pytest.raises(AttnMemError) as error:
        criterion(good, bad, False, NONE)
    assert str(error.value) == message


def test_a_row_is_named_with_its_region_and_metric():
    assert named(A) == "t.py::a"
    assert named(("t.py::a", "forward", "retained")) == "t.py::a [forward] (retained)"
