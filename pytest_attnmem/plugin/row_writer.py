"""The rows of one test: made where it runs, and sent with its reports."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import pytest

from ..budgets.budget import Budget, BudgetSpec
from ..budgets.verdict import Outcome, Verdict, not_enforced
from ..errors import stops
from ..measurement.measurement import Measurement
from ..report.record import Record, from_dict, record, to_dict
from ..symbols.attention_shape import AttentionShape
from .baseline_check import BaselineCheck
from .row_transport import CRASH_PROPERTY, PROPERTY, own_nodeid
from .session import SESSION

#: Errors that stop a session in the middle of a test, which then has no report.
STOPS = stops()

#: By region and metric.
_OVER = pytest.StashKey[dict[tuple[str, str], Verdict]]()
_WRITTEN = pytest.StashKey[dict[tuple[str, str], tuple[str, str]]]()


class RowWriter:
    """Keeps the rows of one test; over reruns, an attempt that was over counts for good."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self.gate = BaselineCheck(item, own_nodeid(item))
        """Holds its numbers to the baseline."""
        self._over = item.stash.setdefault(_OVER, {})
        self._written = item.stash.setdefault(_WRITTEN, {})
        self._over_before = {**self._over}

    def keep(
        self,
        region: str,
        verdict: Verdict | None,
        measurement: Measurement | None,
        shape: AttentionShape,
        *,
        again: bool = False,
    ) -> Verdict | None:
        """Add a row, or say one ``again``; the verdict that counts may be an earlier attempt's."""
        metric = verdict.budget.metric if verdict and verdict.budget else "peak"
        earlier = self._over.get((region, metric))
        if verdict is not None and verdict.outcome is Outcome.OVER:
            self._over[region, metric] = _without_result(verdict)
        elif verdict is not None and earlier is not None:
            verdict = replace(earlier, reason=f"{earlier.reason} (in an earlier attempt)")
        if verdict is not None and verdict.measurement is not None:
            measurement = verdict.measurement  # which may know what was held
        where = _where(self._item)
        row = record(own_nodeid(self._item), region, verdict, measurement, shape.symbols, where)
        row = self.gate.stated(row)
        self._write(row)
        if verdict is not None and verdict.outcome is Outcome.OVER and measurement is not None:
            self._item.config.stash[SESSION].keep_snapshots(row, measurement.snapshots)
        if not again:
            self._item.ihook.pytest_attnmem_record(item=self._item, record=row)
        return verdict

    def take_back(self) -> None:
        """Remove the rows of a run that starts again."""
        for written in self._written.values():
            self._item.user_properties.remove(written)
        self._written.clear()
        self._over.clear()
        self._over.update(self._over_before)

    def tell(self, region: str, traced: Measurement) -> None:
        """Add to the rows of a region who held memory, as a second run saw it."""
        for (name, metric), (_, text) in [*self._written.items()]:
            if name == region:
                held = traced.left if metric == "retained" else traced.held
                row = from_dict(json.loads(text))
                self._write(replace(row, held=held, timeline=traced.timeline))

    def keep_unmeasured(self, reason: str) -> None:
        """Add a row for a test that did not come to be measured, unless it has one."""
        if not self._written:
            self.keep("", not_enforced(reason), None, AttentionShape({}))

    def announce(self, budgets: Iterable[BudgetSpec]) -> None:
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
        for key, (_, text) in [*self._written.items()]:
            row = replace(from_dict(json.loads(text)), expected=expected)
            before, after = self._written[key], (PROPERTY, json.dumps(to_dict(row)))
            for properties in (self._item.user_properties, report.user_properties):
                properties[:] = [after if told == before else told for told in properties]
            self._written[key] = after

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
        if key in self._written:  # by an earlier attempt, or before it was known what was held
            properties.remove(self._written[key])
        self._written[key] = (PROPERTY, json.dumps(to_dict(row)))
        properties.append(self._written[key])


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
