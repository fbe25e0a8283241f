"""Verdicts: within, over and not enforced."""

from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_attnmem.budgets.budget import Budget, BudgetSpec, Obstacle
from pytest_attnmem.budgets.growth_contract import Contract, parse_contract
from pytest_attnmem.budgets.growth_fit import GrowthFindings
from pytest_attnmem.budgets.growth_judgement import Answer, Judgement
from pytest_attnmem.budgets.limit import Limit
from pytest_attnmem.budgets.tolerance import Tolerance
from pytest_attnmem.budgets.verdict import Outcome, Verdict, judge, judge_unfinished, not_enforced
from pytest_attnmem.formulas.formula import parse_formula
from pytest_attnmem.measurement.measurement import METRICS, Measurement
from pytest_attnmem.symbols.attention_shape import AttentionShape

MIB = 1024**2
WITHIN, OVER, NOT_ENFORCED = Outcome.WITHIN, Outcome.OVER, Outcome.NOT_ENFORCED

sizes = st.integers(0, 2**40)
tolerances = st.builds(
    Tolerance, st.fractions(0, 1, max_denominator=1000), st.sampled_from([0, 1, MIB])
)


def measured(seen: Measurement, peak: int) -> Measurement:
    return replace(seen, peak_bytes=peak)


@pytest.mark.parametrize("metric", METRICS)
def test_a_limit_that_equals_the_value_passes(seen: Measurement, metric: str) -> None:
    whole = replace(seen, reserved_bytes=2048)
    value = whole.value(metric) or 0
    assert judge(whole, Budget(value, metric=metric)).outcome is WITHIN
    assert judge(whole, Budget(value, metric=metric, exact=True)).outcome is WITHIN
    assert judge(whole, Budget(value - 1, metric=metric)).outcome is OVER
    assert judge(whole, Budget(value + 1, metric=metric)).outcome is WITHIN
    assert judge(whole, Budget(value + 1, metric=metric, exact=True)).outcome is OVER


@pytest.mark.parametrize(
    ("outcome", "lenient", "strict"),
    [(WITHIN, False, False), (OVER, True, True), (NOT_ENFORCED, False, True)],
)
def test_what_fails_a_test(outcome: Outcome, lenient: bool, strict: bool) -> None:
    verdict = Verdict(outcome, "")
    assert (verdict.fails(strict=False), verdict.fails(strict=True)) == (lenient, strict)


@pytest.mark.parametrize(
    ("changes", "budget"),
    [
        ({}, Budget(2048)),
        ({"allocations": 0, "peak_bytes": 0}, Budget(0)),
        ({"retained_bytes": -512}, Budget(0, metric="retained")),  # it fell below the start
    ],
    ids=["usual", "nothing", "less than nothing"],
)
def test_a_verdict_keeps_what_it_rests_on(
    seen: Measurement, changes: dict[str, object], budget: Budget
) -> None:
    measured = replace(seen, **changes)  # type: ignore[arg-type]
    assert judge(measured, budget) == Verdict(WITHIN, "", measured, budget)


@pytest.mark.parametrize(
    ("limit", "tolerance", "outcome", "exactly"),
    [
        (255, 0, OVER, OVER),  # 256 to 1024 bytes are retained: the import pinned the rest
        (256, 0, NOT_ENFORCED, NOT_ENFORCED),
        (1023, 0, NOT_ENFORCED, NOT_ENFORCED),
        (1024, 0, WITHIN, NOT_ENFORCED),
        (1025, 0, WITHIN, OVER),
        (155, 100, OVER, OVER),
        (156, 100, NOT_ENFORCED, NOT_ENFORCED),  # 256 bytes, the least, are allowed
        (355, 100, NOT_ENFORCED, NOT_ENFORCED),
        (923, 100, NOT_ENFORCED, NOT_ENFORCED),
        (924, 100, WITHIN, NOT_ENFORCED),
        (1124, 100, WITHIN, NOT_ENFORCED),
        (1125, 100, WITHIN, OVER),
    ],
)
def test_what_an_import_pinned_may_be_retained_or_not(
    seen: Measurement, limit: int, tolerance: int, outcome: Outcome, exactly: Outcome
) -> None:
    pinned = replace(seen, retained_bytes=1024, imported="torch.fx", pinned_bytes=768)
    budget = Budget(limit, metric="retained", tolerance=Tolerance(nbytes=tolerance))
    assert judge(pinned, budget).outcome is outcome
    verdict = judge(pinned, replace(budget, exact=True))
    assert verdict.outcome is exactly
    if exactly is NOT_ENFORCED:
        assert verdict.reason == (
            "the first use of torch.fx was in it, and imports keep tensors alive; measure a second"
            " run: warmup=1"
        )


def test_a_second_run_is_told_where_the_first_imported(seen: Measurement) -> None:
    second = replace(seen, imported="torch.fx")
    remark = "in a second run; the first imported torch.fx"
    assert judge(second, Budget(2048, metric="retained")) == Verdict(
        WITHIN, remark, second, Budget(2048, metric="retained")
    )
    assert judge(second, Budget(2048)).reason == ""
    assert judge(seen, Budget(2048, metric="retained")).reason == ""


@pytest.mark.parametrize(
    ("limit", "metric", "exact", "outcome", "reason"),
    [
        (100, "peak", False, OVER, "peak 1.0 KiB exceeds budget 100 B (10.2x) on cpu"),
        (2048, "peak", False, NOT_ENFORCED, "it raised"),
        (2048, "peak", True, NOT_ENFORCED, "it raised"),  # its end may need more
        (1024, "peak", True, NOT_ENFORCED, "it raised"),
        (100, "retained", False, NOT_ENFORCED, "it raised"),
    ],
)
def test_a_body_that_did_not_end_is_over_or_not_enforced(
    seen: Measurement, limit: int, metric: str, exact: bool, outcome: Outcome, reason: str
) -> None:
    spec = BudgetSpec({"default": Limit(limit, "a limit")}, metric=metric, exact=exact)
    verdict = judge_unfinished(seen, spec, AttentionShape({}), "it raised")
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert (verdict.budget.text, verdict.budget.metric) == ("a limit", metric)


def test_a_body_that_did_not_end_may_have_a_limit_without_a_value(seen: Measurement) -> None:
    spec = BudgetSpec({"default": Limit(parse_formula("N"), "N")})
    verdict = judge_unfinished(seen, spec, AttentionShape({}), "it raised")
    assert verdict == not_enforced("it raised", Obstacle.REGION_LEFT, seen, Budget(None, "N"))


def test_a_contract_is_not_held_to_what_an_import_pinned(seen: Measurement) -> None:
    pinned = replace(seen, retained_bytes=1024, imported="torch.fx", pinned_bytes=768)
    verdict = judge(pinned, Budget(None, metric="retained", contract=parse_contract("O(N)")))
    assert verdict.outcome is NOT_ENFORCED
    assert verdict.reason.startswith("the first use of torch.fx was in it, ")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"unmeasured": "a thread allocated"}, "a thread allocated"),
        ({"peak_bytes": None}, "peak is not measured on cpu"),
        ({"allocations": 0}, "nothing was allocated"),
        ({"out_of_memory": "tried to allocate 1 B"}, "out of memory on cpu: tried to allocate 1 B"),
    ],
)
def test_nothing_is_varied_for_a_measurement_that_decides_alone(
    seen: Measurement, changes: dict[str, object], reason: str
) -> None:
    def vary(contract: Contract, metric: str, measurement: Measurement) -> GrowthFindings:
        raise AssertionError(contract)

    budget = Budget(None, contract=parse_contract("O(N)"))
    verdict = judge(replace(seen, **changes), budget, vary)  # type: ignore[arg-type]
    assert verdict.outcome is (OVER if "out_of_memory" in changes else NOT_ENFORCED)
    assert verdict.reason.startswith(reason)


@pytest.mark.parametrize(
    ("notes", "reason"), [((), "nothing was varied"), (("it differs", "so"), "it differs; so")]
)
def test_a_contract_without_growth_says_why(
    seen: Measurement, notes: tuple[str, ...], reason: str
) -> None:
    asked = []

    def vary(*question: object) -> GrowthFindings:
        asked.append(question)
        return GrowthFindings(notes=notes)

    budget = Budget(None, contract=parse_contract("O(N)"))
    verdict = judge(seen, budget, vary)
    assert asked == [(budget, seen)]
    assert (verdict.outcome, verdict.reason) == (NOT_ENFORCED, reason)


class Answered(NamedTuple):
    """A growth whose judgement is known."""

    judgement: Judgement
    sizes: tuple[str, ...] = ("N",)

    def judge(self, contract: Contract) -> Judgement:
        return self.judgement


KEPT = Answered(Judgement(Answer.KEPT, "", note="a remark"))
UNKNOWN = Answered(Judgement(Answer.UNKNOWN, "two sizes"))
BROKEN = Answered(Judgement(Answer.BROKEN, "it grows as N^2"))


@pytest.mark.parametrize(
    ("growths", "notes", "outcome", "reason"),
    [
        ((KEPT, UNKNOWN, BROKEN), (), OVER, "it grows as N^2 on cpu; the contract is O(N)"),
        ((KEPT, BROKEN), ("d is fixed",), OVER, "it grows as N^2 on cpu; the contract is O(N)"),
        ((KEPT, UNKNOWN), ("d is fixed",), NOT_ENFORCED, "two sizes"),
        ((KEPT,), ("d is fixed",), NOT_ENFORCED, "d is fixed"),
        ((KEPT,), (), WITHIN, "a remark"),
    ],
)
def test_the_worst_growth_decides(
    seen: Measurement,
    growths: tuple[Answered, ...],
    notes: tuple[str, ...],
    outcome: Outcome,
    reason: str,
) -> None:
    budget = Budget(None, contract=parse_contract("O(N)"))
    found = GrowthFindings(growths, notes)  # type: ignore[arg-type]
    verdict = judge(seen, budget, lambda *_: found)
    assert (verdict.outcome, verdict.reason) == (outcome, reason)
    assert verdict.growths == tuple(sorted(growths, key=lambda growth: growth.judgement.answer))


@pytest.mark.parametrize(
    ("jointly", "outcome", "reason"),
    [
        (BROKEN, OVER, "it grows as N^2 on cpu; the contract is O(N)"),
        (KEPT, NOT_ENFORCED, "N is not varied"),
    ],
)
def test_without_a_growth_the_bytes_over_a_formula_decide_only_against_it(
    seen: Measurement, jointly: Answered, outcome: Outcome, reason: str
) -> None:
    budget = Budget(None, contract=parse_contract("O(N)"))
    found = GrowthFindings(notes=("N is not varied",), jointly=jointly.judgement)
    verdict = judge(seen, budget, lambda *_: found)
    assert (verdict.outcome, verdict.reason) == (outcome, reason)


def test_a_missing_limit_is_known(seen: Measurement) -> None:
    assert judge(seen, Budget(None)).lacks_limit
    assert not judge(seen, Budget(1024)).lacks_limit


@given(peak=sizes, limit=sizes, tolerance=tolerances, exact=st.booleans())
def test_what_was_measured_is_over_or_within(
    seen: Measurement, peak: int, limit: int, tolerance: Tolerance, exact: bool
) -> None:
    allowance = tolerance.allowance(limit)
    over = peak > limit + allowance or (exact and peak < limit - allowance)
    verdict = judge(measured(seen, peak), Budget(limit, tolerance=tolerance, exact=exact))
    assert verdict.outcome is (OVER if over else WITHIN)
    assert bool(verdict.reason) is over
    assert len(verdict.reason.splitlines()) <= 1


@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        (153 * MIB // 2, 9 * MIB // 2, "peak 76.5 MiB exceeds budget 4.5 MiB (17.0x)"),
        (2 * MIB, MIB, "peak 2.0 MiB exceeds budget 1.0 MiB (2.0x)"),
        (115, 100, "peak 115 B exceeds budget 100 B (1.2x)"),
        (105, 100, "peak 105 B exceeds budget 100 B (1.1x)"),
        (104, 100, "peak 104 B exceeds budget 100 B by 4 B"),
        (1, 0, "peak 1 B exceeds budget 0 B by 1 B"),
        (64 * MIB + 1, 64 * MIB, "peak 67,108,865 B exceeds budget 67,108,864 B by 1 B"),
        # The text leaves out the excess, which would also read 64.0 MiB.
        (128 * MIB + 4, 64 * MIB, "peak 128.0 MiB exceeds budget 64.0 MiB (2.0x)"),
    ],
)
def test_over_says_how_much(seen: Measurement, value: int, limit: int, text: str) -> None:
    assert judge(measured(seen, value), Budget(limit)).reason == f"{text} on cpu"


def test_over_names_the_metric_and_the_tolerance(seen: Measurement) -> None:
    budget = Budget(100, metric="retained", tolerance=Tolerance(Fraction(1, 20), 8))
    assert judge(seen, budget).reason == (
        "retained 256 B exceeds budget 100 B (2.6x) with tolerance 5%+8B on cpu"
    )


def test_under_an_exact_budget_asks_for_it_to_be_written_down(seen: Measurement) -> None:
    assert judge(seen, Budget(3072, exact=True)).reason == (
        "peak 1,024 B is under the exact budget 3,072 B by 2,048 B on cpu: write the improvement"
        " down, 1024"
    )


def test_exact_has_tolerance_below_as_above(seen: Measurement) -> None:
    for limit, outcome in [(1008, WITHIN), (1007, OVER), (1040, WITHIN), (1041, OVER)]:
        budget = Budget(limit, exact=True, tolerance=Tolerance(nbytes=16))
        assert judge(seen, budget).outcome is outcome


@pytest.mark.parametrize(
    ("changes", "budget", "reason"),
    [
        ({"unmeasured": "a thread was started"}, Budget(2048), "a thread was started"),
        ({"unmeasured": "a thread was started"}, Budget(1), "a thread was started"),
        ({}, Budget(2048, metric="reserved"), "reserved is not measured on cpu"),
        (
            {"peak_bytes": None, "missing": "under cudaMallocAsync"},
            Budget(2048),
            "peak is not measured on cpu: under cudaMallocAsync",
        ),
        ({}, Budget(None, absent="no limit for cpu, only for cuda"), "no limit for cpu, only for"
         " cuda"),
        ({"allocations": 0, "peak_bytes": 0}, Budget(2048), "nothing was allocated"),
        ({"allocations": 0, "peak_bytes": 0}, Budget(2048, exact=True), "nothing was allocated"),
    ],
    ids=["unmeasured", "unmeasured and over", "no such number", "why no number", "no limit",
         "no allocation", "no allocation, exactly"],
)  # fmt: skip
def test_what_was_not_measured_is_never_a_pass(
    seen: Measurement, changes: dict[str, object], budget: Budget, reason: str
) -> None:
    verdict = judge(replace(seen, **changes), budget)  # type: ignore[arg-type]
    assert (verdict.outcome, verdict.reason) == (NOT_ENFORCED, reason)


@pytest.mark.parametrize(
    ("changes", "limit", "rest"),
    [
        ({}, 2048, " with 1.0 KiB held; budget 2.0 KiB"),
        ({"peak_bytes": 0}, 2048, "; budget 2.0 KiB"),
        ({"peak_bytes": None}, None, ""),
        ({"unmeasured": "a thread was started", "allocations": 0}, 2048,
         " with 1.0 KiB held; budget 2.0 KiB"),
    ],
    ids=["held", "nothing held", "not counted", "unmeasured"],
)  # fmt: skip
def test_running_out_of_memory_is_over(
    seen: Measurement, changes: dict[str, object], limit: int | None, rest: str
) -> None:
    starved = replace(seen, out_of_memory="tried to allocate 9 B", **changes)  # type: ignore[arg-type]
    verdict = judge(starved, Budget(limit))
    reason = f"out of memory on cpu: tried to allocate 9 B{rest}"
    assert (verdict.outcome, verdict.reason) == (OVER, reason)


def test_not_enforced_rests_on_nothing() -> None:
    verdict = not_enforced("skipped", Obstacle.NOT_FINISHED)
    known = (verdict.outcome, verdict.measurement, verdict.budget)
    assert known == (NOT_ENFORCED, None, Budget(None))


def test_each_obstacle_has_a_remedy_of_its_own() -> None:
    assert len({obstacle.remedy for obstacle in Obstacle}) == len(Obstacle.__members__)
