"""Concludes verdicts: asks the baseline, finds the tensors, writes the row and raises the error.

Verdicts on a test's body, regions, checks and comparisons are all concluded here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from ..backends.primed_backend import PrimedBackend
from ..budgets.budget import Obstacle
from ..budgets.failure_text import explain
from ..budgets.growth_fit import Growth
from ..budgets.verdict import Outcome, Verdict
from ..errors import BudgetExceeded, NotEnforced, causes, stops
from ..measurement.measurement import Measurement
from ..symbols.attention_shape import AttentionShape
from .attribution import attributed, wanted


class Ending(Enum):
    """The end of a part of a test. A part that did not finish can be over, but never within."""

    FINISHED = "finished"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Part:
    """A measured part of a test: its body, which has no name, a region, a check, a comparison."""

    name: str
    shape: AttentionShape
    primed: PrimedBackend | None = None
    """The backend of a body or a region; None for a check or a comparison."""
    trace: Callable[[], Measurement] | None = None
    """Runs the part again under a tracker; None while the part cannot run again."""
    growths: Callable[[Collection[str], str, Measurement], tuple[Growth, ...]] | None = None
    """Finds the growth of a metric with symbols; None if the part cannot run at other sizes."""
    ending: Ending = Ending.FINISHED
    limited: bool = False
    """True if the part has a limit of its own."""


@dataclass(frozen=True, slots=True)
class Strictness:
    """The tests that fail where a budget is not enforced."""

    level: str = "off"
    """``off``: none; ``marked``: those with a limit of their own or an entry; ``all``."""
    named: bool = True
    """True if a backend is named; what the one that was found does not count is then no excuse."""

    def fails(self, obstacle: Obstacle | None, promised: bool) -> bool:
        """Returns True if the obstacle fails a test, which is ``promised`` not to exceed bytes."""
        if self.level != "marked":
            return self.level == "all"
        unasked = obstacle is Obstacle.METRIC_NOT_COUNTED and not self.named
        return promised and not unasked and not (obstacle is not None and obstacle.excused)


class Recorded(Protocol):
    """The baseline of a test."""

    def judge(
        self, part: Part, verdict: Verdict | None, measurement: Measurement
    ) -> Verdict | None:
        """Returns the verdict that follows from the test's own limit and from the baseline."""

    def records(self, part: Part, verdict: Verdict) -> bool:
        """Returns True if the baseline has an entry for a part where it is measured."""

    def with_terms(self, part: Part, verdict: Verdict) -> Verdict:
        """Returns the verdict on a regression with the terms that it added, if they are known."""


class Rows(Protocol):
    """Writes the rows of a test, and knows its baseline."""

    @property
    def baseline(self) -> Recorded:
        """The baseline of the test."""

    def write(
        self,
        part: Part,
        verdict: Verdict | None,
        measurement: Measurement | None,
        *,
        again: bool = False,
    ) -> Verdict | None:
        """Writes a row, or writes it ``again``; returns the verdict that counts."""


@dataclass(slots=True)
class Exceeded:
    """A limit that was exceeded, or not enforced, and its error."""

    part: Part
    verdict: Verdict
    raised: BudgetExceeded | NotEnforced | None = None
    """The error that a region raised before its test could run again; ``error`` is complete."""
    reported: bool = False
    """True once a report shows the error, such as the report of a subtest."""
    error: BudgetExceeded | NotEnforced = field(init=False)

    def __post_init__(self) -> None:
        kind = BudgetExceeded if self.is_over else NotEnforced
        self.error = kind(f"{self.part.name}: {explain(self.verdict, self.part.shape)}")

    @property
    def is_over(self) -> bool:
        """Returns True if the limit was exceeded."""
        return self.verdict.outcome is Outcome.OVER

    @property
    def listed(self) -> bool:
        """True if the error lists the tensors that were held."""
        return bool(self.verdict.measurement and self.verdict.measurement.held)

    def is_error(self, raised: BaseException | None) -> bool:
        """Returns True if ``raised`` is the error of this limit."""
        return raised is not None and raised in (self.error, self.raised)

    def explains(self, raised: BaseException | None) -> bool:
        """Returns True if ``raised`` is the error of this limit, or was raised from it."""
        return any(self.is_error(error) for error in causes(raised))


@dataclass(slots=True)
class Conclusions:
    """Concludes verdicts; ``rows`` is None if no rows are written, as outside pytest."""

    rows: Rows | None
    strict: Strictness
    explain: str
    enforcing: bool = True
    exceeded: list[Exceeded] = field(default_factory=list)
    """The exceeded limits of regions, checks and comparisons, even if the test caught the error."""

    def conclude_again(self, part: Part, verdict: Verdict | None, measurement: Measurement) -> None:
        """Concludes a part a second time, when its test has ended and can run again."""
        verdict = self.conclude(part, verdict, measurement, again=True)
        if verdict is not None and self.fails(part, verdict):
            self.exceeded.append(Exceeded(part, verdict))

    def conclude(
        self,
        part: Part,
        verdict: Verdict | None,
        measurement: Measurement | None,
        *,
        again: bool = False,
    ) -> Verdict | None:
        """Returns the complete verdict that counts, and writes its row, or writes it ``again``.

        ``verdict`` is None for a part without a limit.
        """
        if self.rows is None:
            return self._explained(part, verdict)
        if measurement is not None:
            verdict = self.rows.baseline.judge(part, verdict, measurement)
        try:
            verdict = self._explained(part, verdict)
        except stops():  # raised by the extra run; the known verdict counts
            self.rows.write(part, verdict, measurement, again=again)
            raise
        return self.rows.write(part, verdict, measurement, again=again)

    def enforce(
        self, part: Part, verdict: Verdict | None, measurement: Measurement
    ) -> Verdict | None:
        """Returns the verdict that counts.

        Raises:
            BudgetExceeded: a part that finished was over. A part that did not finish has raised
                its own error.
            NotEnforced: the verdict on a part that finished fails a strict session.
        """
        if not self.enforcing:
            return verdict
        verdict = self.conclude(part, verdict, measurement)
        if verdict is not None and self.fails(part, verdict):
            self.exceeded.append(Exceeded(part, verdict))
            if part.ending is Ending.FINISHED:
                raise self.exceeded[-1].error
        return verdict

    def fails(self, part: Part, verdict: Verdict) -> bool:
        """Returns True if a verdict fails its test."""
        if verdict.outcome is not Outcome.NOT_ENFORCED:
            return verdict.outcome is Outcome.OVER
        promised = part.limited
        if self.rows is not None and not promised:
            promised = self.rows.baseline.records(part, verdict)
        return self.strict.fails(verdict.obstacle, promised)

    def complete(self, run: Callable[[Part], Callable[[], Measurement]]) -> None:
        """Adds the tensors to the verdicts on regions, by ``run`` of their test."""
        for place, before in enumerate(self.exceeded):
            if before.part.primed is not None and before.verdict.outcome is Outcome.OVER:
                part = replace(before.part, trace=run(before.part))
                verdict = self._explained(part, before.verdict) or before.verdict
                if self.rows is not None:
                    self.rows.write(part, verdict, None, again=True)
                raised, reported = before.error, before.reported
                self.exceeded[place] = Exceeded(part, verdict, raised, reported)

    def _explained(self, part: Part, verdict: Verdict | None) -> Verdict | None:
        if verdict is None or self.explain == "off":
            return verdict
        over = verdict.outcome is Outcome.OVER
        if self.rows is not None and part.primed is not None and part.trace is None:
            return verdict  # completed when its test can run again
        if (over or part.ending is Ending.FINISHED) and wanted(self.explain, verdict):
            verdict = attributed(verdict, part.trace)
        if not over or self.rows is None:
            return verdict
        if verdict.regression:
            return self.rows.baseline.with_terms(part, verdict)
        return _with_growth(part, verdict)


def _with_growth(part: Part, verdict: Verdict) -> Verdict:
    """Returns the verdict with the growth of memory in the symbols of its budget."""
    measured, budget = verdict.measurement, verdict.budget
    if part.growths is None or measured is None or verdict.growths:
        return verdict
    if measured.out_of_memory is not None:
        return verdict
    symbols = {part.shape.source(name) for name in budget.values}
    return replace(verdict, growths=part.growths(symbols, budget.metric, measured))
