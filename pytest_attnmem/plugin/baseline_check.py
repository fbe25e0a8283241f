"""Judges the measurements of a running test by its baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from ..api.conclusion import Ending, Part
from ..baselines.entries import (
    NO_ENTRY,
    OTHER_ENTRY,
    Baseline,
    Entry,
    Key,
    State,
    compare,
    regression,
    tolerance_of,
)
from ..baselines.environment_key import depends_on
from ..baselines.part_changes import part_changes
from ..baselines.torch_version import named, split
from ..budgets.budget import Budget
from ..budgets.tolerance import Tolerance
from ..budgets.verdict import Outcome, Verdict
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from ..report.record import Record
from .plan import PLAN
from .session import SESSION

if TYPE_CHECKING:
    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend
    from .fitted_forms import Row
    from .traced_runs import TracedRuns


@dataclass(frozen=True, slots=True)
class Measured:
    """A number of a test, and its entry in the baseline."""

    key: Key
    made: Entry
    """The entry to write."""
    entry: Entry | None
    tolerance: Tolerance
    other: Key | None = None
    """The entry of another version of torch, if there is none of this version."""

    @property
    def state(self) -> State:
        """The state of the number against its entry."""
        return compare(self.made.nbytes, self.entry, self.tolerance)


_IF_INTENDED = "if this is intended: --attnmem-update all"

#: The numbers that an attempt at a test measured, by region and metric.
MEASURED = pytest.StashKey[dict["Row", Measured]]()


class BaselineCheck:
    """The baseline of one test. A budget without a limit needs an entry in it."""

    def __init__(self, item: pytest.Item, name: str) -> None:
        session = item.config.stash[SESSION]
        self._item = item
        self._name = name
        self._baseline: Baseline | None = session.baseline
        self._update = session.settings.update
        self._tolerance = session.settings.tolerance
        self._measured = item.stash.setdefault(MEASURED, {})

    def judge(
        self, part: Part, verdict: Verdict | None, measurement: Measurement
    ) -> Verdict | None:
        """Returns the verdict that follows from the test's own budget and from the baseline.

        Returns None for a region that has neither a limit nor a baseline entry.
        """
        if part.ending is not Ending.FINISHED:
            return self._judge_unfinished(part, verdict, measurement) or verdict
        bare = verdict if verdict and verdict.lacks_limit and _unlimited(verdict) else None
        if bare and not measurement.allocations:
            return replace(bare, reason="nothing was allocated")
        budget = verdict.budget if verdict and verdict.budget else Budget(None)
        measured = self._measure(part.name, budget.metric, verdict, measurement)
        entry = measured.entry if measured else None
        if measured is None or entry is None or (verdict and verdict.outcome is Outcome.OVER):
            if verdict is None:
                return self._unmeasured(part.name, budget, measurement)
            return self._without_entry(bare, measured) if bare else verdict
        if bare or verdict is None:
            limit = measured.made.nbytes if self._update == "all" else entry.nbytes
            budget = replace(budget, limit_bytes=limit, tolerance=measured.tolerance, absent="")
            verdict = Verdict(Outcome.WITHIN, "", measurement, budget)
        if measured.state is State.REGRESSED and self._update != "all":
            return self._regressed(budget, measurement, entry, measured.tolerance)
        return verdict

    def _unmeasured(self, region: str, budget: Budget, measurement: Measurement) -> Verdict | None:
        """Returns ``not enforced`` for a region without a limit whose entry met no number."""
        if measurement.unmeasured is None or self._baseline is None:
            return None
        key = self._key(region, budget.metric, measurement)
        if key not in self._baseline.entries and self._baseline.of_other_torch(key) is None:
            return None
        return Verdict(Outcome.NOT_ENFORCED, measurement.unmeasured, measurement, budget)

    def _key(self, region: str, metric: str, measurement: Measurement) -> Key:
        environment = depends_on(measurement.backend, measurement.device)
        return Key(self._name, region, metric, environment)

    def _judge_unfinished(
        self, part: Part, verdict: Verdict | None, measurement: Measurement
    ) -> Verdict | None:
        """Returns the verdict on an unfinished part that is over its baseline, or None.

        Retained bytes are not judged: the tensors of such a part may yet be freed.
        """
        budget = verdict.budget if verdict and verdict.budget else Budget(None)
        value = measurement.value(budget.metric)
        unknown = value is None or measurement.unmeasured or measurement.out_of_memory
        over = verdict is not None and verdict.outcome is Outcome.OVER
        judged = part.ending is Ending.FAILED and budget.metric != "retained"
        if self._baseline is None or self._update == "all" or over or unknown or not judged:
            return None
        key = self._key(part.name, budget.metric, measurement)
        entry = self._baseline.entries.get(key)
        tolerance = self._tolerance or tolerance_of(key.environment)
        if entry is None or value is None:
            return None
        if compare(value, entry, tolerance) is not State.REGRESSED:
            return None
        return self._regressed(budget, measurement, entry, tolerance)

    def _regressed(
        self, budget: Budget, measurement: Measurement, entry: Entry, tolerance: Tolerance
    ) -> Verdict:
        value = measurement.value(budget.metric) or 0
        comparison = regression(budget.metric, value, entry, measurement.place, tolerance)
        reason = f"{comparison}   {self._baseline.name if self._baseline else ''}"
        return Verdict(
            Outcome.OVER, reason, measurement, budget, hint=_IF_INTENDED, regression=True
        )

    def annotate(self, row: Record) -> Record:
        """Returns the row with the bytes of its baseline entry, and its state."""
        measured = self._measured.get((row.region, row.metric))
        if measured is None or row.value is None:
            return row
        if measured.other is not None and self._baseline is not None:
            return replace(
                row,
                baseline_bytes=self._baseline.entries[measured.other].nbytes,
                baseline_state=State.OTHER_TORCH.value,
                baseline_torch=split(measured.other.environment)[1] or "unknown",
            )
        state = compare(row.value, measured.entry, measured.tolerance)
        nbytes = measured.entry.nbytes if measured.entry is not None else None
        return replace(row, baseline_bytes=nbytes, baseline_state=state.value)

    def with_terms(self, part: Part, verdict: Verdict) -> Verdict:
        """Returns the verdict on a regression with the terms that it added, if they are known."""
        metric = verdict.budget.metric if verdict.budget else "peak"
        measured = self._measured.get((part.name, metric))
        if measured is None or measured.entry is None or verdict.measurement is None:
            return verdict
        if parts := part_changes(measured.entry.parts, verdict.measurement.parts):
            return replace(verdict, change=parts)
        if part.primed is None:
            return verdict
        if not (measured.entry.formula or measured.entry.held):
            return verdict
        from ..baselines.regression_text import difference
        from .fitted_forms import FormFitter

        memory, row = self._item.stash[PLAN].memory, (part.name, metric)
        forms = FormFitter(self._item, memory, part.primed)
        nbytes, form = measured.made.nbytes, None
        if measured.entry.formula:
            form = forms.fit({row: nbytes}).get(row)
        held, symbols = verdict.measurement.held, _symbols(memory)
        change = difference(measured.entry, nbytes, form, forms.sizes, held, symbols)
        return replace(verdict, change=change.text, more=change.more)

    def derive(self, memory: AttnMem, primed: PrimedBackend, runs: TracedRuns) -> None:
        """Adds closed forms and tensors to the entries to write."""
        rows = {
            row: measured
            for row, measured in self._measured.items()
            if (self._update == "new" and measured.entry is None)
            or (self._update == "all" and measured.made is not measured.entry)
        }
        if not rows:
            return
        from ..measurement.tensor_kinds import labels
        from .fitted_forms import FormFitter

        forms = FormFitter(self._item, memory, primed)
        formulas = forms.fit({row: measured.made.nbytes for row, measured in rows.items()})
        for (region, metric), measured in rows.items():
            try:
                traced = runs.region(region, primed) if region else runs.whole(primed)
                held = traced.left if metric == "retained" else traced.held
            except AttnMemError:
                held = ()
            form = formulas.get((region, metric))
            formula = "" if form is None else str(form)
            made = replace(measured.made, formula=formula, held=labels(held))
            self._measured[region, metric] = replace(measured, made=made)

    def _measure(
        self, region: str, metric: str, verdict: Verdict | None, measurement: Measurement
    ) -> Measured | None:
        """Returns the number to compare; None if it is unknown or in doubt."""
        value = measurement.value(metric)
        if self._baseline is None or value is None or measurement.unmeasured is not None:
            return None
        if measurement.doubt(metric):
            return None
        unproven = verdict is not None and verdict.outcome is Outcome.NOT_ENFORCED
        if measurement.out_of_memory is not None or (
            unproven and verdict is not None and not verdict.lacks_limit
        ):
            return None
        key = self._key(region, metric, measurement)
        entry = self._baseline.entries.get(key)
        tolerance = self._tolerance or tolerance_of(key.environment)
        made = Entry(value, parts=measurement.parts)
        if entry is not None and (entry.nbytes, entry.parts) == (value, made.parts):
            made = entry
        other = self._baseline.of_other_torch(key)
        measured = self._measured[region, metric] = Measured(key, made, entry, tolerance, other)
        return measured

    def _without_entry(self, bare: Verdict, measured: Measured | None) -> Verdict:
        """Returns the verdict on a budget without a limit; a new entry is within itself."""
        if measured and self._update in ("all", "new"):
            return replace(bare, outcome=Outcome.WITHIN, reason="")
        return replace(bare, reason=self._missing(measured))

    def _missing(self, measured: Measured | None) -> str:
        """Returns the message about a missing entry, with the option that writes an entry."""
        others: tuple[str, ...] = ()
        if measured and self._baseline:
            if measured.other is not None:
                return _of_other_torch(self._baseline, measured.key, measured.other)
            others = self._baseline.elsewhere(measured.key)
        here = f" here, only for {', '.join(others)}" if others else ""
        return f"{NO_ENTRY}{here}; --attnmem-update new writes one"


def _of_other_torch(baseline: Baseline, key: Key, other: Key) -> str:
    version, recorded = (split(one.environment)[1] for one in (key, other))
    keeps = baseline.keeps_versions(key.environment)
    how = "new writes one" if keeps else "all moves it, new keeps both"
    return f"{OTHER_ENTRY} {named(recorded)}, this is {version}; --attnmem-update {how}"


def _unlimited(verdict: Verdict) -> bool:
    return verdict.budget is not None and verdict.budget.unlimited


def _symbols(memory: AttnMem) -> Mapping[str, int]:
    """Returns the symbols of the test's shape; none if two sources disagree."""
    try:
        return memory.shape().symbols
    except AttnMemError:
        return {}
