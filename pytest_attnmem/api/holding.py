"""From a verdict on a part of a test to its row, and to the error that fails the test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..backends.primed_backend import PrimedBackend
from ..budgets.verdict import Verdict
from ..errors import stops
from ..measurement.measurement import Measurement
from ..symbols.attention_shape import AttentionShape
from .attribution import Exceeded, attributed, wanted

__tracebackhide__ = True  # pytest shows the line that called, and none of these

#: Keeps a row of region, verdict (None: measured only), measurement and shape; returns the verdict
#: that counts.
Keeper = Callable[[str, "Verdict | None", Measurement, AttentionShape], "Verdict | None"]
#: Holds a region's verdict and measurement to the baseline; returns the verdict that counts.
Gate = Callable[[str, "Verdict | None", Measurement], "Verdict | None"]


@dataclass(slots=True)
class Holding:
    """Keeps the rows of regions, checks and compares, and raises for those that fail."""

    keep: Keeper | None
    gate: Gate | None
    strict: bool
    explain: str
    enforcing: bool
    exceeded: list[Exceeded] = field(default_factory=list)
    """Each limit that was not kept, whether or not the test caught the error."""

    def conclude(
        self,
        name: str,
        verdict: Verdict | None,
        measurement: Measurement,
        shape: AttentionShape,
        instrument: PrimedBackend | None = None,
    ) -> Verdict | None:
        """Returns the verdict that counts.

        Raises:
            BudgetExceeded: the verdict fails the test.
        """
        if not self.enforcing:
            return verdict
        if self.gate is not None:
            verdict = self.gate(name, verdict, measurement)
        if verdict is not None and wanted(self.explain, verdict):
            try:
                verdict = attributed(verdict, measurement.trace)
            except stops():  # in another run; what is known counts
                self.note(name, verdict, measurement, shape, instrument)
                raise
        verdict = self.note(name, verdict, measurement, shape, instrument)
        if verdict is not None and verdict.fails(self.strict):
            raise self.exceeded[-1].error
        return verdict

    def note(
        self,
        name: str,
        verdict: Verdict | None,
        measurement: Measurement,
        shape: AttentionShape,
        instrument: PrimedBackend | None,
    ) -> Verdict | None:
        """Keeps a row and returns the verdict that counts; raises nothing."""
        if not self.enforcing:
            return verdict
        if self.keep is not None:
            verdict = self.keep(name, verdict, measurement, shape) or verdict
        if verdict is not None and verdict.fails(self.strict):
            self.exceeded.append(Exceeded(name, verdict, shape, instrument))
        return verdict
