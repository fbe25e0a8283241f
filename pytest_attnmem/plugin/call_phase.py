"""Runs a test inside its windows, and concludes the verdicts on their measurements."""

from __future__ import annotations

import traceback
from collections.abc import Generator
from contextlib import suppress
from dataclasses import replace
from functools import partial

import pytest

from .. import errors
from ..api.attribution import of_second_run
from ..api.conclusion import Exceeded, Part
from ..budgets.budget import Budget, BudgetSpec, Obstacle, resolve
from ..budgets.failure_text import explain
from ..budgets.verdict import Outcome, Verdict, judge, not_enforced
from ..errors import AttnMemError, CannotSimulate, ProgramRefused
from ..measurement.measurement import Measurement
from ..measurement.window import Window
from ..measurement.window_stack import out_of_memory
from ..symbols.attention_shape import AttentionShape, Source
from ..units import shown
from .another_run import begin_run
from .compiled_check import CompiledCheck
from .endings import (
    Failed,
    NotKnown,
    ending_of,
    failure_of,
    skipped_if_unknown,
    unfinished,
)
from .growth_check import GrowthCheck
from .item_arguments import arguments
from .measured_body import MeasuredBody
from .options import MARKER
from .plan import Plan
from .ranks import meshes
from .row_writer import STOPS, RowWriter
from .settled_runs import RepeatedRuns
from .traced_rerun import TracedRerun, keep_for_unittest, kept_by_unittest
from .traced_runs import TracedRuns


class BudgetExceeded(errors.BudgetExceeded, pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A test exceeded its budget: a failure without a traceback."""

    __module__ = "builtins"  # so that the summary says "BudgetExceeded: peak …"

    def __init__(self, text: str) -> None:
        pytest.fail.Exception.__init__(self, text, pytrace=False)


class CallPhase:
    """Measures and judges one test."""

    def __init__(self, item: pytest.Item, plan: Plan) -> None:
        self._item = item
        self._plan = plan
        self._rows = RowWriter(item)
        self._conclusions = plan.memory.conclusions
        self._over = self._mistaken = False
        self._body = MeasuredBody(item, plan, self._rows)
        self._compiled = CompiledCheck(item)

    def run(self) -> Generator[None, object, object]:
        """Runs the test's body, at the ``yield``, inside a window for each of its budgets.

        Raises:
            BudgetExceeded: in the call phase, where xfail, reruns, ``-x`` and JUnit expect it.
        """
        self._plan.memory.add_symbols(arguments(self._item))
        result: object = None
        error: BaseException | None = None
        begin_run(self._item)
        try:
            self._body.foresee()
            with self._body.warmed_up(), self._compiled.watched(), self._body.measured():
                result = yield
        except BaseException as raised:
            error = raised
        self.conclude(error)
        return result

    def conclude(self, error: BaseException | None) -> None:
        """Writes the rows of the test, and raises the error that ends it.

        Raises:
            BudgetExceeded: a budget was exceeded, and the test did not raise its error.
            NotEnforced: likewise, a budget was not enforced.
        """
        if why := self._body.why_again(error):
            error = self._body.run_again(why)
        if error is not None:
            error = skipped_if_unknown(error)
        try:
            self._conclude(error)
        except (errors.BudgetExceeded, errors.NotEnforced):
            raise
        except (ProgramRefused, Exception) as fault:  # of ours, or the test's own error
            if fault is not error:
                with suppress(Exception):
                    self._rows.write_unmeasured(f"it could not be judged: {shown(fault)}")
            if error is None or error in errors.causes(fault):
                raise
            raise error from fault

    def _conclude(self, error: BaseException | None) -> None:
        self._plan.memory.add_symbols(meshes(self._item))
        cause = error or kept_by_unittest(self._item)
        cause = cause and skipped_if_unknown(cause)
        if isinstance(cause, STOPS):  # nothing may run again
            self._conclusions.explain = "off"
        measurements = [
            self._measurement(spec, opened, cause)
            for (spec, _), opened in zip(self._plan.budgets, self._body.windows, strict=False)
        ]
        if cause is None:
            measurements = self._unpinned(measurements)
        filled = not self._plan.warmup and any(one and one.retained_bytes for one in measurements)
        failed = cause is not None
        runs = TracedRuns(self._item, failed, empty_caches=filled)
        abandoned = self._abandoned()
        repeat = None if failed else RepeatedRuns(self._item)
        for part, verdict, measured in self._rows.baseline.waiting(repeat):
            part = replace(part, trace=partial(runs.measurement_of, part))
            self._conclusions.conclude_again(part, verdict, measured)
        if self._conclusions.explain != "off":
            self._conclusions.complete(lambda part: partial(runs.measurement_of, part))
            error, cause = self._with_completed(error, cause)
        texts = self._judge_all(measurements, cause, runs)
        if cause is None:
            unentered = self._unentered()
            self._mistaken |= bool(unentered)
            texts += [*unentered, *abandoned]
        caught = self._caught(cause)
        texts += [str(exceeded.error) for exceeded in caught]
        self._over |= any(exceeded.is_over for exceeded in caught)
        if (unknown := failure_of(self._item, cause)) is not None:
            texts = texts or [str(unknown)]
        if self._conclusions.explain == "all" and cause is None:
            self._explain_the_rest(runs)
        used = [primed for _, primed in self._plan.budgets]
        used += [region.primed for region in self._plan.memory.regions]
        if used and self._conclusions.explain != "off" and cause is None:
            self._rows.baseline.derive(used[0], runs)
        skipped = bool(caught or unknown) and isinstance(cause, pytest.skip.Exception)
        ran_out = any(one and one.out_of_memory is not None for one in measurements)
        self._raise("\n".join(texts), error, cause, in_place=skipped or ran_out)

    def _with_completed(
        self, error: BaseException | None, cause: BaseException | None
    ) -> tuple[BaseException | None, BaseException | None]:
        """Returns the error and the cause, where a region's error lists the tensors."""
        for exceeded in self._conclusions.exceeded:
            if exceeded.raised is None or not (exceeded.reported or exceeded.explains(cause)):
                continue
            if cause is not exceeded.raised:  # a subtest's error, or the origin of the cause
                self._item.add_report_section("call", "memory budget", str(exceeded.error))
                continue
            complete = exceeded.error.with_traceback(exceeded.raised.__traceback__)
            if error is None:
                keep_for_unittest(self._item, complete)
            return (None if error is None else complete), complete
        return error, cause

    def _raise(
        self,
        text: str,
        error: BaseException | None,
        cause: BaseException | None,
        *,
        in_place: bool,
    ) -> None:
        """Fails the test with its own error; with ``text`` if it has none, or if ``in_place``."""
        if text and (error is None or in_place) and not isinstance(error, STOPS):
            if cause is not error and in_place:
                self._item._excinfo = None  # type: ignore[attr-defined]
            elif cause is not error:  # pytest reports the error that unittest keeps, not ours
                self._item.add_report_section("call", "memory budget", text)
            if self._mistaken and not self._over:
                raise pytest.fail.Exception(text, pytrace=False) from None
            raise (BudgetExceeded if self._over else Failed)(text) from None
        if error is not None:
            if text:
                self._item.add_report_section("call", "memory budget", text)
            if isinstance(error, CannotSimulate):
                # The line in its text tells more than its frames.
                raise pytest.fail.Exception(str(error), pytrace=False) from None
            raise error

    # The parts of the test: its regions, checks and comparisons

    def _caught(self, cause: BaseException | None) -> list[Exceeded]:
        """Returns the exceeded limits that no report shows, because the test caught the error.

        A skip reports no limit, even if it is raised from the error of a limit; and a test that
        skips itself may leave a limit that was not enforced.
        """
        skipped = isinstance(cause, pytest.skip.Exception)
        return [
            exceeded
            for exceeded in self._conclusions.exceeded
            if not exceeded.reported
            and (exceeded.is_over if skipped else not exceeded.explains(cause))
        ]

    def _unentered(self) -> list[str]:
        """Writes a row for each region that was never entered; returns texts."""
        names = [region.name for region in self._plan.memory.regions if not region.entered]
        for name in names:
            never = not_enforced("the region was never entered", Obstacle.NOT_FINISHED)
            self._rows.write(Part(name, AttentionShape({})), never, None)
        return [f"region {name!r} was never entered; use it in a 'with'" for name in names]

    def _abandoned(self) -> list[str]:
        """Writes a row for each region that is still open, as in a generator.

        Returns the texts of those that fail the test.
        """
        texts = []
        for region in self._plan.memory.regions:
            if region.abandon():
                shape = AttentionShape({})
                part = Part(region.name, shape, region.primed, limited=region.limited)
                verdict = not_enforced("the test ended inside the region", Obstacle.REGION_OPEN)
                self._rows.write(part, verdict, None)
                if self._conclusions.fails(part, verdict):
                    texts.append(f"{region.name}: {explain(verdict, shape)}")
        return texts

    def _explain_the_rest(self, runs: TracedRuns) -> None:
        """Adds the held tensors to the rows of regions within their limits."""
        for region in [*self._plan.memory.regions]:
            measured = region.measurement
            if measured is not None and not measured.held and measured.unmeasured is None:
                with suppress(AttnMemError):
                    traced = runs.measured(region.name, region.primed)
                    self._rows.attach_held(region.name, of_second_run(traced))

    def _judge_all(
        self,
        measurements: list[Measurement | None],
        cause: BaseException | None,
        runs: TracedRuns,
    ) -> list[str]:
        """Writes a row for each budget; returns the texts of the budgets that fail the test."""
        over, failures = list[str](), list[str]()
        own = isinstance(self._item, pytest.Function) and not self._plan.default  # no doctest
        for verdict in self._plan.blocked:
            part = Part("", AttentionShape({}), limited=own)
            self._conclusions.conclude(part, verdict, None)
            if cause is None and self._conclusions.fails(part, verdict):
                failures.append(explain(verdict, part.shape))
        listed = not any(
            exceeded.is_error(cause) and exceeded.listed for exceeded in self._conclusions.exceeded
        )
        for place, (spec, primed) in enumerate(self._plan.budgets):
            measurement = measurements[place] if place < len(measurements) else None
            skipped = isinstance(cause, pytest.skip.Exception) and not isinstance(cause, NotKnown)
            if self._plan.default and skipped:
                continue  # as a test that a mark skips
            shape = self._shape(spec, measurement)
            growth = GrowthCheck(self._item, primed)
            part = Part(
                "",
                shape,
                primed,
                partial(runs.measured, "", primed, holders=spec.metric != "retained"),
                None if cause is not None or self._plan.default else growth.explanation,
                ending_of(cause),
                limited=spec.is_promise and own,
            )
            try:
                verdict = judge_body(spec, measurement, shape, cause, growth)
                if spec.compiled and cause is None:
                    verdict = self._compiled.judged(verdict, primed)
            except AttnMemError as error:
                why = _missing(spec, shape) if self._plan.default else ""
                verdict = not_judged(spec, measurement, why or str(error), cause)
                if not self._plan.default and cause is None:
                    self._mistaken = True
                    failures.append(f"{MARKER}: {error}   {spec.where}")
            verdict = self._conclusions.conclude(part, verdict, measurement) or verdict
            if verdict.outcome is Outcome.OVER:
                over.append(explain(verdict, shape, listed=listed))
            elif cause is None and not failures and self._conclusions.fails(part, verdict):
                failures.append(explain(verdict, shape, listed=listed))
        self._over |= bool(over)
        return over + failures

    def _measurement(
        self, spec: BudgetSpec, opened: Window, cause: BaseException | None
    ) -> Measurement | None:
        """Returns the measurement; out of memory if unittest caught that error."""
        measurement = opened.measurement
        if measurement is None or cause is None:
            return measurement
        for _, primed in self._plan.budgets:
            asked = out_of_memory(primed.backend, cause)
            if asked is not None and primed.backend.device == measurement.device:
                traceback.clear_frames(cause.__traceback__)
                asked = measurement.out_of_memory or asked  # the window knew how much
                return replace(measurement, out_of_memory=asked, recovered="")
        return measurement

    def _unpinned(self, measurements: list[Measurement | None]) -> list[Measurement | None]:
        """Returns the measurements; ``retained`` of a second run where an import pinned tensors.

        Tensors that no import pinned stay retained: a collection does not free them.
        """
        again = TracedRerun(self._item)
        unpinned = [*measurements]
        for place, measured in enumerate(measurements):
            spec, primed = self._plan.budgets[place]
            if spec.metric == "retained" and measured is not None and measured.pinned_bytes:
                with suppress(AttnMemError):
                    unpinned[place] = again.unpinned(measured, primed)
        return unpinned

    def _shape(self, spec: BudgetSpec, measurement: Measurement | None) -> AttentionShape:
        if measurement is None:
            return AttentionShape({})
        device = Source(f"the {measurement.backend} backend", measurement.symbols)
        return self._plan.memory.shape(Source("the marker", spec.symbols), device)


def _missing(spec: BudgetSpec, shape: AttentionShape) -> str:
    """Returns why ``--attnmem-default`` says nothing of a test, alike for all tests; or ""."""
    missing = shape.missing(sorted(spec.read))
    return f"the test gives {missing[0]!r} of --attnmem-default no value" if missing else ""


def judge_body(
    spec: BudgetSpec,
    measurement: Measurement | None,
    shape: AttentionShape,
    cause: BaseException | None,
    growth: GrowthCheck,
) -> Verdict:
    """Returns the verdict on a test's body, which ended by *cause*; None if it came to its end.

    Raises:
        AttnMemError: a symbol has no value, or the test does not run at other sizes.
    """
    if measurement is None or (cause is not None and spec.metric == "retained"):
        return not_judged(spec, measurement, "", cause)  # a traceback retains much
    budget = resolve(spec, shape, measurement.kinds)
    if cause is None:
        return judge(measurement, budget, growth.findings)
    # The body did not reach its end: it can be over, but never within.
    verdict = judge(measurement, replace(budget, exact=False))
    if verdict.outcome is Outcome.OVER and not isinstance(cause, pytest.skip.Exception):
        return replace(verdict, budget=budget)
    return not_enforced(*unfinished(cause), measurement, budget)


def not_judged(
    spec: BudgetSpec,
    measurement: Measurement | None,
    reason: str,
    cause: BaseException | None,
) -> Verdict:
    """Returns ``not enforced``, because of *reason*, or because the body ended by *cause*."""
    budget = Budget(None, spec.text, where=spec.where, metric=spec.metric)
    why = (reason, Obstacle.NOT_FINISHED) if cause is None else unfinished(cause)
    return not_enforced(*why, measurement, budget)
