"""Judges the measurements of a running test by its baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from ..api.conclusion import Ending, Part
from ..baselines.entries import (
    NO_ENTRY,
    OTHER_ENTRY,
    Baseline,
    Entry,
    State,
    compare,
    part_changes,
    regression,
    tolerance_of,
)
from ..baselines.environment_key import named, split
from ..budgets.budget import NO_LIMIT, Budget, Obstacle
from ..budgets.verdict import NOTHING, Outcome, Verdict, not_enforced
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from ..report.record import Record
from .baseline_numbers import BaselineNumbers, Measured
from .plan import PLAN
from .session import SESSION
from .traced_rerun import left_by

if TYPE_CHECKING:
    import pytest

    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend
    from .baseline_numbers import Repeat
    from .traced_runs import TracedRuns


class BaselineCheck:
    """The baseline of one test. A budget without a limit needs an entry in it."""

    def __init__(self, item: pytest.Item) -> None:
        session = item.config.stash[SESSION]
        self._item = item
        self._baseline: Baseline | None = session.baseline
        self._update = session.settings.update
        self._tolerance = session.settings.tolerance
        self._numbers = BaselineNumbers(item)

    def judge(
        self, part: Part, verdict: Verdict | None, measurement: Measurement
    ) -> Verdict | None:
        """Returns the verdict that follows from the test's own budget and from the baseline.

        Returns None for a region that has neither a limit nor a baseline entry. A region whose
        test still runs is judged again when it has ended and can run again: see ``waiting``.
        """
        if part.ending is not Ending.FINISHED:
            return self._judge_unfinished(part, verdict, measurement) or verdict
        budget = verdict.budget if verdict else NO_LIMIT
        bare = verdict if verdict and verdict.lacks_limit and budget.unlimited else None
        if bare and not measurement.allocations:
            entry = self._numbers.entry(self._numbers.key_of(part.name, budget.metric, measurement))
            if entry is None or entry.nbytes:  # else a run that finds caches filled needs nothing
                return replace(bare, reason=NOTHING, obstacle=Obstacle.NOTHING_ALLOCATED)
        if bare and (doubt := measurement.doubt(budget.metric)):
            return replace(bare, reason=doubt, obstacle=Obstacle.FIRST_IMPORT)
        measured = self._numbers.measure(part.name, budget.metric, verdict, measurement)
        early = part.name != "" and self._numbers.attempt.repeat is None
        waits = measured is not None and early and part.primed is not None
        if waits:
            self._numbers.attempt.waiting[part.name] = (part, verdict, measurement)
        elif measured is not None and part.primed is not None and self._differs(measured):
            measured = self._numbers.settled(part.name, budget.metric, part.primed)
        entry = measured.entry if measured else None
        over = verdict is not None and verdict.outcome is Outcome.OVER
        if measured is not None and measured.unsettled:
            del self._numbers.by_row[part.name, budget.metric]  # it is not recorded
            if not over and (bare or entry or (verdict is None and self._update)):
                return not_enforced(measured.unsettled, Obstacle.NOT_REPEATED, measurement, budget)
            if verdict and not over:
                reasons = (verdict.reason, self._update and f"not recorded: {measured.unsettled}")
                verdict = replace(verdict, reason="; ".join(filter(None, reasons)))
            measured = None
        if measured is None or entry is None or over:
            if verdict is None:
                return self._unmeasured(part.name, budget, measurement)
            return self._without_entry(bare, measured) if bare else verdict
        if bare or verdict is None:
            limit = measured.made.nbytes if self._update == "all" else entry.nbytes
            budget = replace(budget, limit_bytes=limit, tolerance=measured.tolerance, absent="")
            verdict = Verdict(Outcome.WITHIN, "", measured.run or measurement, budget)
        if measured.state is State.REGRESSED and self._update != "all" and not waits:
            return self._regressed(budget, measured.run or measurement, measured)
        if measured.note and measured.state is State.SAME:
            said = f"same, {measured.note}{left_by(self._item, part.primed, part.name)}"
            return replace(verdict, reason="; ".join(filter(None, (verdict.reason, said))))
        return verdict

    def waiting(self, repeat: Repeat | None) -> list[tuple[Part, Verdict | None, Measurement]]:
        """Returns the regions to judge again; *repeat* runs the test again, if it can run again."""
        attempt = self._numbers.attempt
        attempt.repeat = repeat or _once
        found = [*attempt.waiting.values()]
        attempt.waiting.clear()
        return found

    def _differs(self, measured: Measured) -> bool:
        """Returns True if the number must be that of a run which the next one repeats."""
        if measured.entry is None:
            return self._update in ("all", "new")
        if self._update == "all" and measured.made.retained:
            return True
        return measured.state is not State.SAME

    def _unmeasured(self, region: str, budget: Budget, measurement: Measurement) -> Verdict | None:
        """Returns ``not enforced`` for a region without a limit whose entry met no number."""
        if measurement.unmeasured is None or self._baseline is None:
            return None
        key = self._numbers.key_of(region, budget.metric, measurement)
        if key not in self._baseline.entries and self._baseline.of_other_torch(key) is None:
            return None
        return not_enforced(measurement.unmeasured, Obstacle.NOT_COUNTED, measurement, budget)

    def records(self, part: Part, verdict: Verdict) -> bool:
        """Returns True if there is an entry for a part on the device that it runs on."""
        metric = verdict.budget.metric
        if verdict.measurement is not None:
            key = self._numbers.key_of(part.name, metric, verdict.measurement)
            return self._numbers.entry(key) is not None
        if part.primed is None:
            return False
        backend = part.primed.backend
        key = self._numbers.key(part.name, metric, backend.name, backend.device)
        return self._numbers.entry(key) is not None

    def _judge_unfinished(
        self, part: Part, verdict: Verdict | None, measurement: Measurement
    ) -> Verdict | None:
        """Returns the verdict on an unfinished part that is over its baseline, or None.

        Retained bytes are not judged: the tensors of such a part may yet be freed.
        """
        budget = verdict.budget if verdict else NO_LIMIT
        value = measurement.value(budget.metric)
        unknown = value is None or measurement.unmeasured or measurement.out_of_memory
        over = verdict is not None and verdict.outcome is Outcome.OVER
        judged = part.ending is Ending.FAILED and budget.metric != "retained"
        if self._baseline is None or self._update == "all" or over or unknown or not judged:
            return None
        key = self._numbers.key_of(part.name, budget.metric, measurement)
        entry = self._baseline.entries.get(key)
        tolerance = self._tolerance or tolerance_of(key.environment)
        if entry is None or value is None:
            return None
        measured = Measured(key, Entry(value), entry, tolerance)
        if measured.state is not State.REGRESSED:
            return None
        return self._regressed(budget, measurement, measured)

    def _regressed(self, budget: Budget, measurement: Measurement, measured: Measured) -> Verdict:
        entry, made = measured.entry or Entry(0), measured.made
        number, metric = made.nbytes, budget.metric
        if compare(number, entry, measured.tolerance) is not State.REGRESSED:  # more was left
            number, entry = made.retained or 0, Entry(entry.retained or 0)
            metric, budget = "retained", replace(budget, metric="retained", limit_bytes=None)
        comparison = regression(metric, number, entry, measurement.place, measured.tolerance)
        reason = f"{comparison}   {self._baseline.name if self._baseline else ''}"
        hint = "if this is intended: --attnmem-update all"
        return Verdict(Outcome.OVER, reason, measurement, budget, hint=hint, regression=True)

    def annotate(self, row: Record) -> Record:
        """Returns the row with the bytes of its baseline entry, and its state."""
        measured = self._numbers.by_row.get((row.region, row.metric))
        if measured is None and row.metric == "retained":  # of the entry for the peak
            beside = self._numbers.by_row.get((row.region, "peak"))
            if beside is not None and beside.entry is not None:
                left = beside.entry.retained
                return replace(row, baseline_bytes=left, baseline_state=beside.left.value)
        if measured is None or row.value is None:
            return row
        if measured.other is not None and self._baseline is not None:
            return replace(
                row,
                baseline_bytes=self._baseline.entries[measured.other].nbytes,
                baseline_state=State.OTHER_TORCH.value,
                baseline_torch=split(measured.other.environment)[1] or "unknown",
            )
        known = row.value in (measured.made.nbytes, measured.made.first)
        state = measured.state
        if not known:  # of an earlier attempt
            state = compare(row.value, measured.entry, measured.tolerance)
        if self._update == "all" and state in (State.REGRESSED, State.IMPROVED):
            state = State.UPDATED
        nbytes = measured.entry.nbytes if measured.entry is not None else None
        return replace(row, baseline_bytes=nbytes, baseline_state=state.value)

    def with_terms(self, part: Part, verdict: Verdict) -> Verdict:
        """Returns the verdict on a regression with the terms that it added, if they are known."""
        metric = verdict.budget.metric
        measured = self._numbers.by_row.get((part.name, metric))
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

        forms = FormFitter(self._item, part.primed, settled=measured.note != "")
        row, nbytes, form = (part.name, metric), measured.made.nbytes, None
        if measured.entry.formula:
            form = forms.fit({row: nbytes}).get(row)
        held, symbols = verdict.measurement.held, _symbols(self._item.stash[PLAN].memory)
        traced = None if metric == "retained" else verdict.measurement.tensors
        change = difference(measured.entry, nbytes, form, forms.sizes, held, symbols, traced)
        return replace(verdict, change=change.text, more=change.more)

    def derive(self, primed: PrimedBackend, runs: TracedRuns) -> None:
        """Adds closed forms and tensors to the entries to write."""
        rows = {
            row: measured
            for row, measured in self._numbers.by_row.items()
            if (self._update == "new" and measured.entry is None)
            or (self._update == "all" and _is_other(measured))
        }
        if not rows:
            return
        from ..measurement.tensor_kinds import labels
        from .fitted_forms import FormFitter

        settled = any(measured.note for measured in rows.values())
        forms = FormFitter(self._item, primed, settled=settled)
        formulas = forms.fit({row: measured.made.nbytes for row, measured in rows.items()})
        for (region, metric), measured in rows.items():
            try:
                traced = runs.without_holders(region, primed)
                held = traced.left if metric == "retained" else traced.held
            except AttnMemError:
                held = ()
            form = formulas.get((region, metric))
            formula = "" if form is None else str(form)
            made = replace(measured.made, formula=formula, held=labels(held))
            self._numbers.by_row[region, metric] = replace(measured, made=made)

    def _without_entry(self, bare: Verdict, measured: Measured | None) -> Verdict:
        """Returns the verdict on a budget without a limit; a new entry is within itself."""
        if measured and self._update in ("all", "new"):
            return replace(bare, outcome=Outcome.WITHIN, reason="", obstacle=None)
        return replace(bare, reason=self._missing(measured), obstacle=Obstacle.NO_ENTRY)

    def _missing(self, measured: Measured | None) -> str:
        """Returns the message about a missing entry, with the option that writes an entry."""
        others: tuple[str, ...] = ()
        if measured and self._baseline:
            key, other = measured.key, measured.other
            if other is not None:
                version, recorded = (split(one.environment)[1] for one in (key, other))
                keeps = self._baseline.keeps_versions(key.environment)
                how = "new writes one" if keeps else "all moves it, new keeps both"
                was = f"{OTHER_ENTRY} {named(recorded)}, this is {version}"
                return f"{was}; --attnmem-update {how}"
            others = self._baseline.elsewhere(key)
        here = f" here, only for {', '.join(others)}" if others else ""
        return f"{NO_ENTRY}{here}; --attnmem-update new writes one"


def _is_other(measured: Measured) -> bool:
    """Returns True if the entry's form and tensors are not those of the number."""
    entry, made = measured.entry, measured.made
    return entry is None or (entry.nbytes, entry.parts) != (made.nbytes, made.parts)


def _once(*_: object) -> NoReturn:
    """Says that a test does not run again: its number is that of its only run."""
    raise AttnMemError("the test does not run again")


def _symbols(memory: AttnMem) -> Mapping[str, int]:
    """Returns the symbols of the test's shape; none if two sources disagree."""
    try:
        return memory.shape().symbols
    except AttnMemError:
        return {}
