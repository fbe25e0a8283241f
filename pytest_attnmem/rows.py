"""The rows of one test: made where it runs, and sent with its reports."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from .errors import AttnMemError
from .measurement import Measurement
from .record import Record, from_dict, record, to_dict
from .reporter import PROPERTY
from .shape import AttentionShape
from .verdict import Outcome, Verdict, not_enforced

#: By region and metric.
_OVER = pytest.StashKey[dict[tuple[str, str], Verdict]]()
_WRITTEN = pytest.StashKey[dict[tuple[str, str], tuple[str, str]]]()


class Rows:
    """Keeps the rows of one test; over reruns, an attempt that was over counts for good."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item
        self._over = item.stash.setdefault(_OVER, {})
        self._written = item.stash.setdefault(_WRITTEN, {})

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
        row = record(self._item.nodeid, region, verdict, measurement, shape.symbols)
        self._write(row)
        if not again:
            self._item.ihook.pytest_attnmem_record(item=self._item, record=row)
        return verdict

    def keep_unmeasured(self, reason: str) -> None:
        """Add a row for a test that did not come to be measured, unless it has one."""
        if not self._written:
            self.keep("", not_enforced(reason), None, AttentionShape({}))

    def _write(self, row: Record) -> None:
        properties, key = self._item.user_properties, (row.region, row.metric)
        if key in self._written:  # by an earlier attempt, or before it was known what was held
            properties.remove(self._written[key])
        self._written[key] = (PROPERTY, json.dumps(to_dict(row)))
        properties.append(self._written[key])


def _without_result(verdict: Verdict) -> Verdict:
    """The verdict, without the tensors that its measurement may have for results and inputs."""
    if verdict.measurement is None:
        return verdict
    return replace(verdict, measurement=replace(verdict.measurement, result=None, trace=None))


def read(properties: list[tuple[str, object]]) -> Iterator[Record]:
    """The rows among a report's user properties."""
    for name, value in properties:
        if name == PROPERTY:
            try:
                yield from_dict(json.loads(str(value)))
            except (AttnMemError, ValueError):  # somebody else's, of the same name
                continue
