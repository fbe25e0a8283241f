"""The one path from a verdict to a row and a failure: baseline, who held the memory, row, error.

A test's body, its regions, checks and comparisons all take this path.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from ..backends.primed_backend import PrimedBackend
from ..budgets.failure_text import explain
from ..budgets.verdict import Outcome, Verdict
from ..errors import BudgetExceeded, causes, stops
from ..measurement.measurement import Measurement
from ..symbols.attention_shape import AttentionShape
from .attribution import attributed, wanted

__tracebackhide__ = True  # pytest shows the line that called, and none of these


class Ending(Enum):
    """How a part of a test ended: a part that did not finish can be over, but never within."""

    FINISHED = "finished"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Part:
    """A measured part of a test: its body, which has no name, a region, a check, a comparison."""

    name: str
    shape: AttentionShape
    primed: PrimedBackend | None = None
    """The backend of a body or a region, which runs again only with its test."""
    trace: Callable[[], Measurement] | None = None
    """Runs the part again under a tracker; None while that is not possible."""
    with_growth: Callable[[Verdict], Verdict] = lambda verdict: verdict
    """Adds to a verdict how memory grows with sizes."""
    ending: Ending = Ending.FINISHED


class Rows(Protocol):
    """The rows of a test, which know its baseline."""

    def against_baseline(
        self, part: Part, verdict: Verdict | None, measurement: Measurement
    ) -> Verdict | None:
        """Returns the verdict that follows from the test's own limit and from the baseline."""

    def difference(self, part: Part, verdict: Verdict) -> Verdict | None:
        """Returns the verdict on a regression with its terms; None if it is not a regression."""

    def keep(
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
    """A limit that was not kept, and the error that says so."""

    part: Part
    verdict: Verdict
    raised: BudgetExceeded | None = None
    """The error that a region raised before its test could run again; ``error`` says more."""
    reported: bool = False
    """True once a report shows the error, such as the report of a subtest."""
    error: BudgetExceeded = field(init=False)

    def __post_init__(self) -> None:
        self.error = BudgetExceeded(f"{self.part.name}: {explain(self.verdict, self.part.shape)}")

    @property
    def listed(self) -> bool:
        """Returns True if the error lists the tensors that were held."""
        return bool(self.verdict.measurement and self.verdict.measurement.held)

    def is_error(self, raised: BaseException | None) -> bool:
        """Returns True if ``raised`` is the error of this limit."""
        return raised is not None and raised in (self.error, self.raised)

    def explains(self, raised: BaseException | None) -> bool:
        """Returns True if ``raised`` is the error of this limit, or was raised from it."""
        return any(self.is_error(error) for error in causes(raised))


@dataclass(slots=True)
class Conclusions:
    """Concludes verdicts; ``rows`` is None where none are written, as outside pytest."""

    rows: Rows | None
    strict: bool
    explain: str
    enforcing: bool = True
    exceeded: list[Exceeded] = field(default_factory=list)
    """The limits of regions, checks and comparisons that were not kept, even if caught."""

    def conclude(
        self, part: Part, verdict: Verdict | None, measurement: Measurement | None
    ) -> Verdict | None:
        """Returns the verdict that counts, complete, and writes its row.

        ``verdict`` is None for a part without a limit.
        """
        if self.rows is not None and measurement is not None:
            verdict = self.rows.against_baseline(part, verdict, measurement)
        try:
            verdict = self._explained(part, verdict)
        except stops():  # in another run; the known verdict counts
            self._keep(part, verdict, measurement)
            raise
        return self._keep(part, verdict, measurement)

    def enforce(
        self, part: Part, verdict: Verdict | None, measurement: Measurement
    ) -> Verdict | None:
        """Returns the verdict that counts.

        Raises:
            BudgetExceeded: the verdict fails a part that finished; the error of another part is
                raised already.
        """
        if not self.enforcing:
            return verdict
        verdict = self.conclude(part, verdict, measurement)
        if verdict is not None and verdict.fails(self.strict):
            self.exceeded.append(Exceeded(part, verdict))
            if part.ending is Ending.FINISHED:
                raise self.exceeded[-1].error
        return verdict

    def complete(self, run: Callable[[Part], Callable[[], Measurement]]) -> None:
        """Completes the verdicts of regions, by ``run`` of their tests; their errors stay."""
        for place, known in enumerate(self.exceeded):
            if known.part.primed is not None and known.verdict.outcome is Outcome.OVER:
                part = replace(known.part, trace=run(known.part))
                verdict = self._explained(part, known.verdict) or known.verdict
                self._keep(part, verdict, None, again=True)
                raised, reported = known.error, known.reported
                self.exceeded[place] = Exceeded(part, verdict, raised, reported)

    def _explained(self, part: Part, verdict: Verdict | None) -> Verdict | None:
        if verdict is None or self.explain == "off":
            return verdict
        over = verdict.outcome is Outcome.OVER
        if self.rows is not None and part.primed is not None and part.trace is None:
            return verdict  # until its test can run again
        if (over or part.ending is Ending.FINISHED) and wanted(self.explain, verdict):
            verdict = attributed(verdict, part.trace)
        if not over or self.rows is None:
            return verdict
        return self.rows.difference(part, verdict) or part.with_growth(verdict)

    def _keep(
        self,
        part: Part,
        verdict: Verdict | None,
        measurement: Measurement | None,
        *,
        again: bool = False,
    ) -> Verdict | None:
        if self.rows is None:
            return verdict
        return self.rows.keep(part, verdict, measurement, again=again) or verdict
