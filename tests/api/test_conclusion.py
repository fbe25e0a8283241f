"""Conclusions: who is asked, what is written, and what is raised."""

from dataclasses import replace

import pytest

from pytest_attnmem.api.conclusion import Conclusions, Ending, Exceeded, Part, Strictness
from pytest_attnmem.budgets.budget import Budget, Obstacle
from pytest_attnmem.budgets.growth_fit import Growth
from pytest_attnmem.budgets.verdict import Outcome, Verdict, judge, not_enforced
from pytest_attnmem.errors import BudgetExceeded, NotEnforced
from pytest_attnmem.measurement.held import Held
from pytest_attnmem.symbols.attention_shape import Source, gather

SHAPE = gather([Source("test", {"B": 2, "N": 8})])
TENSOR = Held(1024, (256,), "float32", "empty", "a.py:1")
GROWTH = Growth({"N": (1, 2, 3, 4)}, {(n,): 4 * n for n in (1, 2, 3, 4)})
REGION = object()  # in the place of its backend
KNOWN = "held tensors are unknown: a region runs again only with its test"


class Rows:
    """Keeps what is written; as a baseline it knows the terms of each regression."""

    def __init__(self, verdict=None):
        self.written = []
        self.verdict = verdict

    @property
    def baseline(self):
        return self

    def judge(self, part, verdict, measurement):
        return self.verdict or verdict

    def records(self, part, verdict):
        return part.name == "recorded"

    def with_terms(self, part, verdict):
        return replace(verdict, change="+4*N")

    def write(self, part, verdict, measurement, *, again=False):
        self.written.append((part.name, verdict, measurement, again))
        return verdict


def conclusions(rows=None, *, strict="off", explain="auto", **known):
    return Conclusions(rows, Strictness(strict), explain, **known)


def part(name="a", **known):
    return Part(name, SHAPE, **known)


def over(seen, **known):
    return replace(judge(seen, Budget(1)), **known)


def test_without_rows_a_verdict_has_its_tensors(seen):
    traced = part(trace=lambda: replace(seen, held=(TENSOR,)))
    verdict = conclusions().conclude(traced, over(seen), seen)
    assert verdict.measurement.held == (TENSOR,)
    assert conclusions().conclude(traced, None, seen) is None
    assert conclusions(explain="off").conclude(traced, over(seen), seen) == over(seen)


def test_a_measurement_is_held_to_the_baseline_too(seen):
    regression = Verdict(Outcome.OVER, "more than before", seen, regression=True)
    rows = Rows(regression)
    verdict = conclusions(rows).conclude(part(trace=lambda: seen), None, seen)
    assert (verdict.reason, verdict.change) == ("more than before", "+4*N")
    assert rows.written == [("a", verdict, seen, False)]
    assert conclusions(rows).conclude(part(), None, None) is None  # nothing was measured


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), pytest.exit.Exception("enough")])
def test_a_stop_in_the_extra_run_leaves_the_row(seen, stop):
    def stopped():
        raise stop

    rows = Rows()
    with pytest.raises(type(stop)):
        conclusions(rows).conclude(part(trace=stopped), over(seen), seen)
    assert rows.written == [("a", over(seen), seen, False)]


def test_a_verdict_that_fails_is_raised_and_kept(seen):
    concluded = conclusions(Rows())
    with pytest.raises(BudgetExceeded, match=r"^a: peak 1.0 KiB exceeds budget 1 B"):
        concluded.enforce(part(trace=lambda: seen), over(seen), seen)
    assert [one.part.name for one in concluded.exceeded] == ["a"]


def test_a_part_that_is_concluded_again_writes_its_row_again_and_raises_nothing(seen):
    rows = Rows()
    concluded = conclusions(rows)
    fails, kept = over(seen), judge(seen, Budget(2048))
    for one in (fails, kept, None):
        concluded.conclude_again(part(trace=lambda: seen), one, seen)
    assert [again for *_, again in rows.written] == [True] * 3
    assert [one.verdict for one in concluded.exceeded] == [fails]


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.SKIPPED])
def test_a_part_that_did_not_finish_keeps_its_own_error(seen, ending):
    concluded = conclusions(Rows())
    verdict = concluded.enforce(part(trace=lambda: seen, ending=ending), over(seen), seen)
    assert verdict.outcome is Outcome.OVER
    assert len(concluded.exceeded) == 1


@pytest.mark.parametrize(
    ("strict", "name", "limited", "obstacle", "fails"),
    [
        ("off", "recorded", True, Obstacle.NOT_COUNTED, False),
        ("marked", "a", False, Obstacle.NOT_COUNTED, False),
        ("marked", "a", True, Obstacle.NOT_COUNTED, True),
        ("marked", "a", True, Obstacle.NO_DEVICE, False),
        ("marked", "recorded", False, Obstacle.NOT_COUNTED, True),
        ("all", "a", False, Obstacle.NO_DEVICE, True),
    ],
)
def test_a_verdict_that_is_not_enforced_fails_if_strict(
    seen, strict, name, limited, obstacle, fails
):
    concluded = conclusions(Rows(), strict=strict)
    doubtful = not_enforced("unknown", obstacle, seen)
    if fails:
        with pytest.raises(NotEnforced) as error:
            concluded.enforce(part(name, limited=limited), doubtful, seen)
        told = f"{name}: not enforced: unknown\n  {obstacle.remedy}\n"
        assert str(error.value) == f"{told}  attnmem explain not-enforced"
    else:
        assert concluded.enforce(part(name, limited=limited), doubtful, seen) == doubtful
    assert len(concluded.exceeded) == fails


def test_what_a_backend_of_nobodys_choice_does_not_count_is_excused():
    for named in (True, False):
        strictness = Strictness("marked", named=named)
        assert strictness.fails(Obstacle.METRIC_NOT_COUNTED, promised=True) == named


def test_what_is_not_enforcing_writes_and_raises_nothing(seen):
    rows = Rows()
    concluded = conclusions(rows, enforcing=False)
    assert concluded.enforce(part(), over(seen), seen) == over(seen)
    assert (rows.written, concluded.exceeded) == ([], [])
    concluded = conclusions(Rows())
    assert concluded.enforce(part(), None, seen) is None  # no limit fails nothing
    assert concluded.exceeded == []


@pytest.mark.parametrize(
    ("of", "asked"),
    [
        ({"primed": REGION}, False),  # when its test can run again
        ({"primed": REGION, "trace": True}, True),
        ({"trace": True}, True),
        ({"trace": True, "ending": Ending.FAILED}, True),
        ({}, True),  # and says why it has none
    ],
)
def test_the_tensors_of_an_exceeded_limit_are_looked_for(seen, of, asked):
    if "trace" in of:
        of = {**of, "trace": lambda: replace(seen, held=(TENSOR,))}
    verdict = conclusions(Rows()).conclude(part(**of), over(seen), seen)
    found = (verdict.measurement.held, verdict.measurement.held_note)
    assert found == (((TENSOR,), "") if "trace" in of else ((), KNOWN if asked else ""))


@pytest.mark.parametrize(("ending", "held"), [(Ending.FINISHED, 1), (Ending.FAILED, 0)])
def test_the_tensors_of_a_kept_limit_are_looked_for_if_it_finished(seen, ending, held):
    kept = judge(seen, Budget(2048))
    traced = part(
        trace=lambda: replace(seen, held=(TENSOR,)),
        growths=lambda *known: (GROWTH,),
        ending=ending,
    )
    verdict = conclusions(Rows(), explain="all").conclude(traced, kept, seen)
    assert (len(verdict.measurement.held), verdict.growths) == (held, ())


def test_an_exceeded_limit_has_the_growth_in_the_symbols_of_its_budget(seen):
    asked = []

    def growths(symbols, metric, measured):
        asked.append((sorted(symbols), metric, measured.peak_bytes))
        return (GROWTH,)

    budget = Budget(1, "B*M", {"B": 2, "M": 8}, metric="peak")
    verdict = judge(seen, budget)
    growing = part(trace=lambda: seen, growths=growths)
    assert conclusions(Rows()).conclude(growing, verdict, seen).growths == (GROWTH,)
    assert asked == [(["B", "N"], "peak", 1024)]  # M is N
    known = replace(verdict, growths=(GROWTH, GROWTH))
    full = judge(replace(seen, out_of_memory=512), budget)
    assert conclusions(Rows()).conclude(growing, known, seen) == known
    assert conclusions(Rows()).conclude(growing, full, full.measurement).growths == ()
    assert conclusions().conclude(growing, verdict, seen).growths == ()
    unmeasured = replace(verdict, measurement=None)
    assert conclusions(Rows()).conclude(growing, unmeasured, None).growths == ()
    alone = part(trace=lambda: seen)
    assert conclusions(Rows()).conclude(alone, verdict, seen).growths == ()
    assert len(asked) == 1


def test_regions_are_completed_once_their_test_runs_again(seen):
    rows = Rows()
    concluded = conclusions(rows, strict="all")
    doubtful = not_enforced("unknown", Obstacle.NOT_COUNTED, seen)
    raised = []
    for one, verdict in (
        (part("check", trace=lambda: seen), over(seen)),
        (part("region", primed=REGION), over(seen)),
        (part("unknown", primed=REGION), doubtful),
    ):
        with pytest.raises((BudgetExceeded, NotEnforced)) as error:
            concluded.enforce(one, verdict, seen)
        raised.append(error.value)
    before = [*concluded.exceeded]
    before[1].reported = True
    rows.written.clear()
    concluded.complete(lambda part: lambda: replace(seen, held=(TENSOR,)))
    check, region, unknown = concluded.exceeded
    assert (check, unknown) == (before[0], before[2])
    assert [written[::3] for written in rows.written] == [("region", True)]
    assert (region.listed, region.reported, before[1].listed) == (True, True, False)
    assert region.is_error(raised[1])
    assert region.is_error(region.error)
    assert str(region.error).splitlines()[-2] == "    1.0 KiB  [256] float32  empty  a.py:1"
    assert not region.is_error(raised[0])
    assert not region.is_error(None)


def test_a_completed_region_needs_no_rows(seen):
    concluded = conclusions(explain="off")
    with pytest.raises(BudgetExceeded):
        concluded.enforce(part(primed=REGION), over(seen), seen)
    concluded.complete(lambda part: lambda: seen)
    assert concluded.exceeded[0].verdict == over(seen)


def test_an_error_raised_from_an_exceeded_limit_is_explained_by_it(seen):
    exceeded = Exceeded(part(), over(seen))
    outer = ValueError()
    outer.__cause__ = exceeded.error
    assert exceeded.explains(outer)
    assert not exceeded.is_error(outer)
    assert not exceeded.explains(ValueError())
    assert not Exceeded(part(), Verdict(Outcome.OVER, "no measurement")).listed
