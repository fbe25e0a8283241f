"""Writes the rows of one test, and sends them with its reports."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

import pytest

from ..api.conclusion import Part
from ..budgets.budget import Budget, BudgetSpec, Obstacle
from ..budgets.failure_text import explanation
from ..budgets.verdict import Outcome, Verdict, not_enforced
from ..errors import stops
from ..measurement.measurement import Measurement
from ..report.record import Record, record, to_dict
from ..symbols.attention_shape import AttentionShape
from .baseline_check import BaselineCheck
from .plan import own_nodeid
from .row_transport import CRASH_PROPERTY, PROPERTY
from .session import SESSION

#: The errors that stop a session in the middle of a test, which then has no report.
STOPS = stops()

#: The verdicts over a budget and the rows of an attempt, by region and metric.
_OVER = pytest.StashKey[dict[tuple[str, str], Verdict]]()
_WRITTEN = pytest.StashKey[dict[tuple[str, str], tuple[Record, tuple[str, str]]]]()


class RowWriter:
    """Writes the rows of one test; a rerun does not replace an attempt that was over."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self.baseline = BaselineCheck(item)
        self._over = item.stash.setdefault(_OVER, {})
        self._written = item.stash.setdefault(_WRITTEN, {})
        self._over_before = {**self._over}

    def write(
        self,
        part: Part,
        verdict: Verdict | None,
        measurement: Measurement | None,
        *,
        again: bool = False,
    ) -> Verdict | None:
        """Writes a row, or writes it ``again``.

        Returns the verdict that counts, which may be of an earlier attempt.
        """
        metric = verdict.budget.metric if verdict else "peak"
        earlier = self._over.get((part.name, metric))
        if verdict is not None and verdict.outcome is Outcome.OVER:
            self._over[part.name, metric] = _without_result(verdict)
        elif verdict is not None and earlier is not None:
            verdict = replace(earlier, reason=f"{earlier.reason} (in an earlier attempt)")
        if verdict is not None and verdict.measurement is not None:
            measurement = verdict.measurement  # may list the tensors
        name, symbols = own_nodeid(self._item), part.shape.symbols
        row = record(name, part.name, verdict, measurement, symbols, where(self._item))
        row = self.baseline.annotate(row)
        over = verdict is not None and verdict.outcome is Outcome.OVER
        if verdict is not None and over:
            row = replace(row, explanation=tuple(explanation(verdict, part.shape)))
        self._send(row)
        if over and measurement is not None:
            self._item.config.stash[SESSION].write_snapshots(row, measurement.snapshots)
        if not again:
            self._item.ihook.pytest_attnmem_record(item=self._item, record=row)
        return verdict

    def take_back(self) -> None:
        """Removes the rows of a run that starts again."""
        for _, written in self._written.values():
            self._item.user_properties.remove(written)
        self._written.clear()
        self._over.clear()
        self._over.update(self._over_before)

    def attach_held(self, region: str, traced: Measurement) -> None:
        """Adds the tensors of a second run to the rows of a region."""
        for (name, metric), (row, _) in [*self._written.items()]:
            if name == region:
                held = traced.left if metric == "retained" else traced.held
                self._send(replace(row, held=held, timeline=traced.timeline))

    def write_unmeasured(self, reason: str) -> None:
        """Writes a row for a test that was not measured, unless it has one."""
        if not self._written:
            self.write(
                Part("", AttentionShape({})), not_enforced(reason, Obstacle.NOT_FINISHED), None
            )

    def send_placeholder(self, budgets: Iterable[BudgetSpec]) -> None:
        """Sends rows before a test begins, in case its process crashes in the test."""
        item, properties = self._item, [*self._item.user_properties]
        verdict = not_enforced("the process died in the test", Obstacle.NOT_FINISHED)
        for spec in budgets:
            crashed = replace(verdict, budget=Budget(None, spec.text, metric=spec.metric))
            row = record(own_nodeid(item), "", crashed, None, {}, where(item))
            properties.append((CRASH_PROPERTY, json.dumps(to_dict(row))))
        if len(properties) > len(item.user_properties):
            self._report("setup", properties)

    def mark_expected(self, report: pytest.TestReport) -> None:
        """Marks the rows of an expected failure."""
        expected = report.skipped and hasattr(report, "wasxfail")
        if report.when == "teardown" and not expected:  # says nothing about the body
            return
        for key, (row, before) in [*self._written.items()]:
            row = replace(row, expected=expected)
            after = self._property(row)
            for properties in (self._item.user_properties, report.user_properties):
                properties[:] = [after if sent == before else sent for sent in properties]
            self._written[key] = row, after

    def stop(self, error: BaseException) -> None:
        """Sends the rows of a test if the session is stopped in it: pytest makes no report."""
        self.write_unmeasured(stopped(error))
        self._report("teardown", [*self._item.user_properties])

    def _report(
        self, when: Literal["setup", "teardown"], properties: list[tuple[str, object]]
    ) -> None:
        """Reports a phase that passed; pytest does not count setup and teardown as tests."""
        item = self._item
        report = pytest.TestReport(
            item.nodeid, item.location, {}, "passed", None, when, user_properties=properties
        )
        item.ihook.pytest_runtest_logreport(report=report)

    def _send(self, row: Record) -> None:
        properties, key = self._item.user_properties, (row.region, row.metric)
        if key in self._written:  # from an earlier attempt, or without its tensors
            properties.remove(self._written[key][1])
        self._written[key] = row, self._property(row)
        properties.append(self._written[key][1])

    def _property(self, row: Record) -> tuple[str, str]:
        return PROPERTY, self._item.config.stash[SESSION].row_texts.write(row)


def stopped(error: BaseException) -> str:
    """Returns the reason for a test in which the session was stopped."""
    why = str(getattr(error, "msg", None) or type(error).__name__)
    return f"the session was stopped: {' '.join(why.split())}"


def _without_result(verdict: Verdict) -> Verdict:
    """Returns the verdict without the results of its measurement, which may hold tensors."""
    if verdict.measurement is None:
        return verdict
    kept = replace(verdict.measurement, result=None, trace=None, snapshots=())
    return replace(verdict, measurement=kept)


def where(item: pytest.Item) -> str:
    """Returns the test's file, relative to the rootdir, and its line if known."""
    path, line, _ = item.location
    return path.replace(os.sep, "/") + ("" if line is None else f":{line + 1}")
