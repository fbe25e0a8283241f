"""Running one test inside its windows, and what follows from what they saw."""

from __future__ import annotations

import traceback
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from .. import errors
from ..api.attribution import attributed, wanted
from ..backends.primed_backend import PrimedBackend
from ..budgets.budget import Budget, BudgetSpec, resolve
from ..budgets.failure_text import explain
from ..budgets.verdict import Outcome, Verdict, judge, not_enforced
from ..errors import AttnMemError, CannotSimulate
from ..measurement.measurement import Measurement
from ..measurement.window import Window
from ..measurement.window_stack import out_of_memory
from ..symbols.attention_shape import AttentionShape, Source
from .growth_verdict import judge_growth, with_growth
from .markers import where
from .options import MARKER, Settings
from .plan import Plan
from .planner import arguments
from .row_writer import STOPS, RowWriter, stopped
from .test_body import MeasuredBody
from .test_parts import Parts
from .traced_rerun import TracedRerun, kept_by_unittest
from .traced_runs import TracedRuns


class BudgetExceeded(errors.BudgetExceeded, pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A test broke its budget: a failure of its own, with no traceback to read."""

    __module__ = "builtins"  # so that the summary says "BudgetExceeded: peak …"

    def __init__(self, text: str) -> None:
        pytest.fail.Exception.__init__(self, text, pytrace=False)


class CallPhase:
    """One test, measured and judged."""

    def __init__(self, item: pytest.Item, plan: Plan, rows: RowWriter, settings: Settings) -> None:
        self._item = item
        self._plan = plan
        self._rows = rows
        self._strict = settings.strict
        self._explain = settings.explain
        self._over = False
        self._body = MeasuredBody(item, plan, rows)
        self._parts = Parts(plan.memory, rows)

    def run(self) -> Generator[None, object, object]:
        """Run the test's body, at the ``yield``, inside a window for each of its budgets.

        Raises:
            BudgetExceeded: in the call phase, where xfail, reruns, ``-x`` and JUnit look for it.
        """
        self._plan.memory.learn(arguments(self._item))
        result: object = None
        error: BaseException | None = None
        try:
            self._body.warm_up()
            with self._body.measured():
                result = yield
        except BaseException as raised:
            error = raised
        self.conclude(error)
        return result

    def conclude(self, error: BaseException | None) -> None:
        """Keep the rows of the body, and raise the error that ends the test.

        Raises:
            BudgetExceeded: a budget was over, and no error of the test says so.
        """
        if again := self._body.again(error):
            error = self._body.run_again(again)
        cause = error or kept_by_unittest(self._item)
        if isinstance(cause, STOPS):  # nothing is to run again
            self._explain = "off"
        measurements = [self._measurement(opened, cause) for opened in self._body.windows]
        if cause is None:
            measurements = self._unpinned(measurements)
        second = TracedRuns(self._item, self._plan.memory, failed=cause is not None)
        abandoned = self._parts.abandoned()
        if self._explain != "off":
            self._parts.explain(second)
        texts = self._judge_all(measurements, cause, second)
        if cause is None:
            texts += [*self._parts.unentered(), *(abandoned if self._strict else [])]
        caught = self._parts.caught(cause)
        texts += [str(exceeded.error) for exceeded in caught]
        self._over |= any(exceeded.verdict.outcome is Outcome.OVER for exceeded in caught)
        if self._explain == "all" and cause is None:
            self._parts.explain_the_rest(second)
        if self._explain != "off" and cause is None:
            self._derive(second)
        skipped = bool(caught) and isinstance(cause, pytest.skip.Exception)
        ran_out = any(seen and seen.out_of_memory is not None for seen in measurements)
        self._raise("\n".join(texts), error, cause, in_place=skipped or ran_out)

    def _raise(
        self,
        text: str,
        error: BaseException | None,
        cause: BaseException | None,
        *,
        in_place: bool,
    ) -> None:
        """Fail the test with ``text``, or with its own error unless ``text`` is in its place."""
        if text and (error is None or in_place) and not isinstance(error, STOPS):
            if cause is not error and in_place:
                self._item._excinfo = None  # type: ignore[attr-defined]
            elif cause is not error:  # what unittest keeps will be reported in place of ours
                self._item.add_report_section("call", "memory budget", text)
            if self._over:
                raise BudgetExceeded(text) from None
            raise pytest.fail.Exception(text, pytrace=False) from None
        if error is not None:
            if text:
                self._item.add_report_section("call", "memory budget", text)
            if isinstance(error, CannotSimulate):  # the line it names says more than its frames
                raise pytest.fail.Exception(str(error), pytrace=False) from None
            raise error

    def _judge_all(
        self,
        measurements: list[Measurement | None],
        cause: BaseException | None,
        second: TracedRuns,
    ) -> list[str]:
        """Keep a row for each budget; the texts of those that fail the test."""
        failures = []
        listed = not any(over.error is cause and over.listed for over in self._plan.memory.exceeded)
        if self._plan.blocked:
            verdict = not_enforced(self._plan.blocked)
            self._rows.keep("", verdict, None, AttentionShape({}))
            return [explain(verdict, AttentionShape({}))] if self._strict and cause is None else []
        for place, (spec, instrument) in enumerate(self._plan.budgets):
            measurement = measurements[place] if place < len(measurements) else None
            if self._plan.default and measurement is not None and not measurement.allocations:
                continue  # a limit for whatever allocates says nothing of a test that does not
            shape = self._shape(spec, measurement)
            try:
                verdict = self._judge(spec, measurement, shape, cause, instrument)
            except AttnMemError as wrong:
                verdict = self._not_enforced(spec, measurement, str(wrong), cause)
                if not self._plan.default and cause is None:
                    failures.append(f"{MARKER}: {wrong}   {self._place(spec)}")
            if measurement is not None:
                verdict = self._held(spec, verdict, measurement, cause)
            over = verdict.outcome is Outcome.OVER
            try:
                if (over or cause is None) and wanted(self._explain, verdict):
                    verdict = attributed(verdict, partial(second.whole, instrument))
                if over and self._explain != "off":
                    compared = self._rows.gate.difference(
                        "", verdict, self._plan.memory, instrument
                    )
                    verdict = compared or self._grown(verdict, instrument, cause, shape)
            except STOPS:  # in another run; what is known counts
                self._rows.keep("", verdict, measurement, shape)
                raise
            verdict = self._rows.keep("", verdict, measurement, shape) or verdict
            unproven = verdict.outcome is Outcome.NOT_ENFORCED and self._strict and cause is None
            self._over = self._over or verdict.outcome is Outcome.OVER
            if verdict.outcome is Outcome.OVER or (unproven and not failures):
                failures.append(explain(verdict, shape, listed=listed))
        return failures

    def _held(
        self,
        spec: BudgetSpec,
        verdict: Verdict,
        measurement: Measurement,
        cause: BaseException | None,
    ) -> Verdict:
        """The verdict that follows from the baseline as well."""
        if cause is None:
            held = self._rows.gate.hold("", verdict, measurement) or verdict
        elif isinstance(cause, pytest.skip.Exception) or spec.metric == "retained":
            return verdict
        else:  # as with its own budget: it may be over by now, but never within
            held = self._rows.gate.overrun("", verdict, measurement) or verdict
        if held is verdict or held.budget is None or not held.budget.text:
            return held
        return replace(held, budget=replace(held.budget, where=self._place(spec)))

    def _grown(
        self,
        verdict: Verdict,
        instrument: PrimedBackend,
        cause: BaseException | None,
        shape: AttentionShape,
    ) -> Verdict:
        """The verdict with how the test grows in the symbols of its budget, where it varies."""
        measured, budget = verdict.measurement, verdict.budget
        if cause is not None or measured is None or budget is None or verdict.growths:
            return verdict
        if measured.out_of_memory is not None or self._plan.default:
            return verdict
        symbols = {shape.source(name) for name in budget.values}
        return with_growth(verdict, symbols, self._item, self._plan.memory, instrument)

    def _judge(
        self,
        spec: BudgetSpec,
        measurement: Measurement | None,
        shape: AttentionShape,
        cause: BaseException | None,
        instrument: PrimedBackend,
    ) -> Verdict:
        if measurement is None or (cause is not None and spec.metric == "retained"):
            return self._not_enforced(spec, measurement, "", cause)  # a traceback retains much
        budget = resolve(spec, shape, measurement.kinds)
        if cause is None and budget.contract is not None and measurement.unmeasured is None:
            verdict = judge_growth(measurement, budget, self._item, self._plan.memory, instrument)
        elif cause is None:
            verdict = judge(measurement, budget)
        else:  # the body did not come to its end: it may be over by now, but never within
            verdict = judge(measurement, replace(budget, exact=False))
        if verdict.outcome is Outcome.OVER and not isinstance(cause, pytest.skip.Exception):
            return replace(verdict, budget=replace(budget, where=self._place(spec)))
        if cause is not None:
            return replace(verdict, outcome=Outcome.NOT_ENFORCED, reason=_why(cause))
        return verdict

    def _not_enforced(
        self,
        spec: BudgetSpec,
        measurement: Measurement | None,
        reason: str,
        cause: BaseException | None,
    ) -> Verdict:
        why = reason if cause is None else _why(cause)
        budget = Budget(None, spec.text, metric=spec.metric)
        return replace(not_enforced(why), measurement=measurement, budget=budget)

    def _place(self, spec: BudgetSpec) -> str:
        if self._plan.default:
            return "--attnmem-default"
        return where(self._item, self._plan.nodes[spec.metric], spec.metric)

    def _measurement(self, opened: Window, cause: BaseException | None) -> Measurement | None:
        """What the window saw; and that memory ran out, where unittest caught the error in it."""
        measurement = opened.measurement
        if measurement is None or cause is None or opened.out_of_memory is not None:
            return measurement
        for _, instrument in self._plan.budgets:
            asked = out_of_memory(instrument.backend, cause)
            if asked is not None and instrument.backend.device == measurement.device:
                traceback.clear_frames(cause.__traceback__)
                return replace(measurement, out_of_memory=asked)
        return measurement

    def _unpinned(self, measurements: list[Measurement | None]) -> list[Measurement | None]:
        """Returns the measurements; where an import pinned tensors, ``retained`` of a second run.

        Tensors that no import pinned are retained: a collection does not free them.
        """
        again = TracedRerun(self._item, self._plan.memory, failed=False)
        settled = [*measurements]
        for place, seen in enumerate(measurements):
            spec, instrument = self._plan.budgets[place]
            if spec.metric == "retained" and seen is not None and seen.pinned_bytes:
                with suppress(AttnMemError):
                    settled[place] = again.unpinned(seen, instrument)
        return settled

    def _shape(self, spec: BudgetSpec, measurement: Measurement | None) -> AttentionShape:
        if measurement is None:
            return AttentionShape({})
        device = Source(f"the {measurement.backend} backend", measurement.symbols)
        return self._plan.memory.shape(Source("the marker", spec.symbols), device)

    def _derive(self, second: TracedRuns) -> None:
        """Find the closed forms of what the baseline is going to have."""
        regions = self._plan.memory.regions
        used = [instrument for _, instrument in self._plan.budgets]
        used += [region.instrument for region in regions]
        if used:
            self._rows.gate.derive(self._plan.memory, used[0], second)


def _why(cause: BaseException | None) -> str:
    if isinstance(cause, (pytest.skip.Exception, pytest.xfail.Exception)):
        ended = "skipped" if isinstance(cause, pytest.skip.Exception) else "xfailed"
        return ": ".join(filter(None, (ended, " ".join(str(cause.msg or "").split()))))
    if isinstance(cause, CannotSimulate):
        return str(cause)
    if isinstance(cause, STOPS):
        return stopped(cause)
    return f"the test failed: {type(cause).__name__}"
