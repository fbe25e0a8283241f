"""Judges a measurement by a budget."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from ..errors import AttnMemError
from ..measurement.held import Held
from ..measurement.measurement import Measurement
from ..symbols.attention_shape import AttentionShape
from ..units import format_distinct, format_size
from .budget import NO_LIMIT, Budget, BudgetSpec, Obstacle, resolve
from .growth_contract import Contract
from .growth_fit import Growth, GrowthFindings
from .growth_judgement import Answer


class Outcome(Enum):
    """The outcome of a budget."""

    WITHIN = "within"
    OVER = "over"
    NOT_ENFORCED = "not enforced"


@dataclass(frozen=True, slots=True)
class Verdict:
    """An outcome, its reason, and the measurement and budget behind it."""

    outcome: Outcome
    reason: str
    """One line: for ``over`` the first line of the failure, for ``within`` a remark or empty."""
    measurement: Measurement | None = None
    budget: Budget = NO_LIMIT
    growths: tuple[Growth, ...] = ()
    """The growth of the measurement with sizes, if known; the growth that breaks a contract first.
    """
    change: str = ""
    """The parts of a regression: ``+4*B*H*N^2: one more float32 …``."""
    more: tuple[Held, ...] = ()
    """The tensors that a regression added, if they are proved."""
    hint: str = ""
    """What to do: the command that accepts the new bytes, or another budget."""
    regression: bool = False
    """True if the baseline is exceeded, not a limit of the test."""
    leak: bool = False
    """True if each run leaves memory that outlives the test, which no contract allows."""
    lacks_limit: bool = False
    """True if only the limit is missing."""
    obstacle: Obstacle | None = None
    """What kept the budget from being enforced; None where it was."""

    def __repr__(self) -> str:
        text = ": ".join(filter(None, (self.outcome.value, self.reason)))
        return f"<Verdict: {text}>"

    def fails(self, strict: bool) -> bool:
        """Returns True if the verdict fails its test; ``not enforced`` fails under ``strict``."""
        return self.outcome is Outcome.OVER or (strict and self.outcome is Outcome.NOT_ENFORCED)


#: The reason of a window that saw no allocation at all.
NOTHING: Final = "nothing was allocated"

#: Measures the growth of a metric at other sizes than the measurement's, for a contract's budget.
Vary = Callable[[Budget, Measurement], GrowthFindings]


def judge(
    measurement: Measurement,
    budget: Budget,
    vary: Vary = lambda budget, measurement: GrowthFindings(),
) -> Verdict:
    """Returns the verdict on a measurement. Equality passes; an unknown value never passes.

    A contract is judged on the growth that ``vary`` finds, if the measurement itself is known.
    """

    def verdict(outcome: Outcome, reason: str = "", obstacle: Obstacle | None = None) -> Verdict:
        return Verdict(outcome, reason, measurement, budget, obstacle=obstacle)

    def unknown(reason: str, obstacle: Obstacle) -> Verdict:
        return verdict(Outcome.NOT_ENFORCED, reason, obstacle)

    def over(reason: str) -> Verdict:
        return replace(verdict(Outcome.OVER, reason), hint=measurement.recovery)

    value, limit = measurement.value(budget.metric), budget.limit_bytes
    if measurement.out_of_memory is not None:
        return verdict(Outcome.OVER, _out_of_memory(measurement, limit))
    if measurement.unmeasured is not None:
        return unknown(measurement.unmeasured, Obstacle.NOT_COUNTED)
    if value is None:
        absent = f"{budget.metric} is not measured on {measurement.backend}"
        if measurement.missing:
            return unknown(f"{absent}: {measurement.missing}", Obstacle.NOT_COUNTED)
        return unknown(absent, Obstacle.METRIC_NOT_COUNTED)
    doubt = measurement.doubt(budget.metric)
    nothing = measurement.allocations == 0 and limit != 0
    if limit is None:
        contract = budget.contract
        if contract is None:
            return replace(unknown(budget.absent, budget.obstacle), lacks_limit=True)
        if nothing:
            return unknown(NOTHING, Obstacle.NOTHING_ALLOCATED)
        if doubt:
            return unknown(doubt, Obstacle.FIRST_IMPORT)
        findings = vary(budget, measurement)
        return _judge_growths(verdict, findings, budget, contract, measurement.place)
    if nothing:
        return unknown(NOTHING, Obstacle.NOTHING_ALLOCATED)
    allowance = budget.tolerance.allowance(limit)
    kept = value - measurement.pinned_bytes if doubt else value
    above = value > limit + allowance >= kept
    below = budget.exact and value >= limit - allowance > kept
    if above or below:  # depends on the bytes that the import pinned
        return unknown(doubt, Obstacle.FIRST_IMPORT)
    if value > limit + allowance:
        return over(_over(value, limit, measurement, budget))
    if budget.exact and value < limit - allowance:
        return over(_under(value, limit, measurement, budget))
    first = measurement.imported if budget.metric == "retained" else ""
    remarks = [f"in a second run; the first imported {first}"] if first else []
    remarks += [measurement.recovery] if measurement.recovered else []
    return verdict(Outcome.WITHIN, "; ".join(remarks))


def _judge_growths(
    verdict: Callable[..., Verdict],
    findings: GrowthFindings,
    budget: Budget,
    contract: Contract,
    place: str,
) -> Verdict:
    def unknown(reason: str) -> Verdict:
        return verdict(Outcome.NOT_ENFORCED, reason, Obstacle.GROWTH_NOT_KNOWN)

    growths, notes, jointly = findings
    broken = jointly is not None and jointly.answer is Answer.BROKEN
    if not growths and not broken:
        return unknown("; ".join(notes) or "nothing was varied")
    judged = [(growth.judge(contract), growth) for growth in growths]
    judged.sort(key=lambda pair: pair[0].answer)
    found = [judgement for judgement, _ in judged]
    if jointly is not None:
        found.append(jointly)
    judgement = min(found, key=lambda one: one.answer)
    worst_first = tuple(growth for _, growth in judged)
    if judgement.answer is Answer.BROKEN:
        bound = f"contract is {contract}" if budget.sum is None else f"budget is {budget.text}"
        reason = f"{judgement.reason} on {place}; the {bound}"
        over = replace(verdict(Outcome.OVER, reason), growths=worst_first, hint=judgement.hint)
        return replace(over, leak=judgement.leak)
    if judgement.answer is Answer.UNKNOWN:
        return replace(unknown(judgement.reason), growths=worst_first)
    if notes:  # a symbol that did not vary may hide any growth
        return replace(unknown("; ".join(notes)), growths=worst_first)
    unnamed = [s for growth in growths for s in growth.sizes if s not in contract.symbols]
    remarks = [f"does not grow with {', '.join(unnamed)}"] if unnamed else []
    remarks += [kept.note for kept in found if kept.note]
    return replace(verdict(Outcome.WITHIN, "; ".join(remarks)), growths=worst_first)


def judge_unfinished(
    measurement: Measurement, spec: BudgetSpec, shape: AttentionShape, why: str
) -> Verdict:
    """Returns the verdict on a region that an error left: over or not enforced.

    The retained bytes of such a region are not judged: its tensors may yet be freed.
    """
    unproven = Budget(None, spec.text, metric=spec.metric)
    with suppress(AttnMemError):  # a symbol may not have a value yet
        if spec.metric != "retained":
            budget = replace(resolve(spec, shape, measurement.kinds), exact=False)
            verdict = judge(measurement, budget)
            if verdict.outcome is Outcome.OVER:
                return verdict
    return not_enforced(why, Obstacle.REGION_LEFT, measurement, unproven)


def not_enforced(
    reason: str,
    obstacle: Obstacle,
    measurement: Measurement | None = None,
    budget: Budget = NO_LIMIT,
) -> Verdict:
    """Returns the verdict on a budget that was not enforced."""
    return Verdict(Outcome.NOT_ENFORCED, reason, measurement, budget, obstacle=obstacle)


def _over(value: int, limit: int, measurement: Measurement, budget: Budget) -> str:
    tenths = (value * 20 // limit + 1) // 2 if limit else 0  # rounded to the nearest tenth
    if tenths > 10:
        shown, allowed = format_distinct(value, limit)
        by = f" ({tenths // 10}.{tenths % 10}x)"
    else:
        shown, allowed, excess = format_distinct(value, limit, value - limit)
        by = f" by {excess}"
    tolerance = f" with tolerance {budget.tolerance}" if str(budget.tolerance) != "0" else ""
    return f"{budget.metric} {shown} exceeds budget {allowed}{by}{tolerance} on {measurement.place}"


def _under(value: int, limit: int, measurement: Measurement, budget: Budget) -> str:
    return (
        f"{budget.metric} {value:,} B is under the exact budget {limit:,} B by {limit - value:,} B"
        f" on {measurement.place}: write the improvement down, {value}"
    )


def _out_of_memory(measurement: Measurement, limit: int | None) -> str:
    peak = measurement.value("peak")
    had = f" with {format_size(peak)} held" if peak else ""
    allowed = "" if limit is None else f"; budget {format_size(limit)}"
    return f"out of memory on {measurement.place}: {measurement.out_of_memory}{had}{allowed}"
