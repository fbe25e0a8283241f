"""The rows of one test: made where it runs, and sent with its reports."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import pytest

from ..api.conclusion import Part
from ..budgets.budget import Budget, BudgetSpec
from ..budgets.verdict import Outcome, Verdict, not_enforced
from ..errors import stops
from ..measurement.measurement import Measurement
from ..report.record import Record, record, to_dict
from ..symbols.attention_shape import AttentionShape
from .baseline_check import BaselineCheck
from .plan import PLAN
from .row_transport import CRASH_PROPERTY, PROPERTY, own_nodeid
from .session import SESSION

#: Errors that stop a session in the middle of a test, which then has no report.
STOPS = stops()

#: By region and metric.
_OVER = pytest.StashKey[dict[tuple[str, str], Verdict]]()
_WRITTEN = pytest.StashKey[dict[tuple[str, str], tuple[Record, tuple[str, str]]]]()


class RowWriter:
    """Keeps the rows of one test; over reruns, an attempt that was over counts for good."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self.baseline = BaselineCheck(item, own_nodeid(item))
        self._over = item.stash.setdefault(_OVER, {})
        self._written = item.stash.setdefault(_WRITTEN, {})
        self._over_before = {**self._over}

    def against_baseline(
        self, part: Part, verdict: Verdict | None, measurement: Measurement
    ) -> Verdict | None:
        """Returns the verdict that follows from the test's own limit and from the baseline."""
        return self.baseline.judge(part, verdict, measurement)

    def difference(self, part: Part, verdict: Verdict) -> Verdict | None:
        """Returns the verdict on a regression with its terms; None if it is not a regression."""
        return self.baseline.difference(part, verdict, self._item.stash[PLAN].memory)

    def keep(
        self,
        part: Part,
        verdict: Verdict | None,
        measurement: Measurement | None,
        *,
        again: bool = False,
    ) -> Verdict | None:
        """Writes a row, or writes it ``again``; an earlier attempt's verdict may count."""
        metric = verdict.budget.metric if verdict and verdict.budget else "peak"
        earlier = self._over.get((part.name, metric))
        if verdict is not None and verdict.outcome is Outcome.OVER:
            self._over[part.name, metric] = _without_result(verdict)
        elif verdict is not None and earlier is not None:
            verdict = replace(earlier, reason=f"{earlier.reason} (in an earlier attempt)")
        if verdict is not None and verdict.measurement is not None:
            measurement = verdict.measurement  # which may list the tensors that were held
        name, symbols = own_nodeid(self._item), part.shape.symbols
        row = record(name, part.name, verdict, measurement, symbols, _where(self._item))
        row = self.baseline.annotate(row)
        self._write(row)
        if verdict is not None and verdict.outcome is Outcome.OVER and measurement is not None:
            self._item.config.stash[SESSION].keep_snapshots(row, measurement.snapshots)
        if not again:
            self._item.ihook.pytest_attnmem_record(item=self._item, record=row)
        return verdict

    def take_back(self) -> None:
        """Remove the rows of a run that starts again."""
        for _, written in self._written.values():
            self._item.user_properties.remove(written)
        self._written.clear()
        self._over.clear()
        self._over.update(self._over_before)

    def attach_held(self, region: str, traced: Measurement) -> None:
        """Add the tensors that a second run found to the rows of a region."""
        for (name, metric), (row, _) in [*self._written.items()]:
            if name == region:
                held = traced.left if metric == "retained" else traced.held
                self._write(replace(row, held=held, timeline=traced.timeline))

    def keep_unmeasured(self, reason: str) -> None:
        """Add a row for a test that did not come to be measured, unless it has one."""
        if not self._written:
            self.keep(Part("", AttentionShape({})), not_enforced(reason), None)

    def send_placeholder(self, budgets: Iterable[BudgetSpec]) -> None:
        """Announce a test before it begins, in case its process is killed in the test."""
        item, told = self._item, [*self._item.user_properties]
        verdict = not_enforced("the process that ran it died")
        for spec in budgets:
            held_to = replace(verdict, budget=Budget(None, spec.text, metric=spec.metric))
            row = record(own_nodeid(item), "", held_to, None, {}, _where(item))
            told.append((CRASH_PROPERTY, json.dumps(to_dict(row))))
        if len(told) > len(item.user_properties):
            self._report("setup", told)

    def expect(self, report: pytest.TestReport) -> None:
        """Write into the rows whether ``report`` is of an expected failure."""
        expected = report.skipped and hasattr(report, "wasxfail")
        if report.when == "teardown" and not expected:  # a teardown does not tell of the body
            return
        for key, (row, before) in [*self._written.items()]:
            row = replace(row, expected=expected)
            after = self._property(row)
            for properties in (self._item.user_properties, report.user_properties):
                properties[:] = [after if known == before else known for known in properties]
            self._written[key] = row, after

    def stop(self, error: BaseException) -> None:
        """Send the rows of a test in which the session is stopped: pytest makes no report of it."""
        self.keep_unmeasured(stopped(error))
        self._report("teardown", [*self._item.user_properties])

    def _report(self, when: Literal["setup", "teardown"], told: list[tuple[str, object]]) -> None:
        """Report a phase that passed; a report of setup or teardown is not counted as a test."""
        item = self._item
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "passed", None, when, user_properties=told
        )
        item.ihook.pytest_runtest_logreport(report=report)

    def _write(self, row: Record) -> None:
        properties, key = self._item.user_properties, (row.region, row.metric)
        if key in self._written:  # by an earlier attempt, or before its tensors were known
            properties.remove(self._written[key][1])
        self._written[key] = row, self._property(row)
        properties.append(self._written[key][1])

    def _property(self, row: Record) -> tuple[str, str]:
        return PROPERTY, self._item.config.stash[SESSION].row_texts.write(row)


def stopped(error: BaseException) -> str:
    """Returns the reason of a test without a verdict, because the session was stopped."""
    why = str(getattr(error, "msg", None) or type(error).__name__)
    return f"the session was stopped: {' '.join(why.split())}"


def _without_result(verdict: Verdict) -> Verdict:
    """The verdict, without the tensors that its measurement may have for results and inputs."""
    if verdict.measurement is None:
        return verdict
    kept = replace(verdict.measurement, result=None, trace=None, snapshots=())
    return replace(verdict, measurement=kept)


def _where(item: pytest.Item) -> str:
    """The test's file from the rootdir, and its line if it has one."""
    path, line, _ = item.location
    return path.replace(os.sep, "/") + ("" if line is None else f":{line + 1}")
