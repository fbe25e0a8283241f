"""Rows as they come in with the reports of tests, which may have run in other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .row_transport import CRASH_PROPERTY, PROPERTY

if TYPE_CHECKING:
    import pytest

    from ..report.record import Record
    from .session import Session


def has_rows(properties: list[tuple[str, object]]) -> bool:
    """Returns whether the user properties of a report or a test have a row."""
    return any(name == PROPERTY for name, _ in properties)


class RowCollector:
    """Keeps the rows of each test once it can have no more, or its process has died in it."""

    def __init__(self, session: Session) -> None:
        self._rows = session.rows
        self._texts = session.row_texts
        self._begun: dict[tuple[str, str], list[tuple[str, object]]] = {}
        """By process and test: what it told before its body."""
        self._died: dict[str, tuple[str, str]] = {}
        """By test: where its rows are of which a process has died."""

    def take(self, report: pytest.TestReport) -> None:
        """Take in what a report tells of its test."""
        key = (getattr(report, "worker_id", ""), report.nodeid)
        told = report.user_properties
        if report.when == "setup" and any(name == CRASH_PROPERTY for name, _ in told):
            self._begun[key] = told
        elif report.when == "teardown":
            self._begun.pop(key, None)
            if has_rows(told):
                self._rows[key] = self._after_death(report.nodeid, self._read(told))
        elif str(report.when) == "???":  # as pytest-xdist tells that a worker has died
            node: Any = getattr(report, "node", None)
            key = (node.gateway.id if node else "", report.nodeid)
            if told := self._begun.pop(key, []):
                rows = _over(self._read(told)) or self._read(told, CRASH_PROPERTY)
                self._rows[key] = self._after_death(report.nodeid, rows)
                self._died[report.nodeid] = key

    def _after_death(self, nodeid: str, rows: list[Record]) -> list[Record]:
        """The rows of another attempt; one that was over counts for good."""
        earlier = self._rows.pop(self._died.pop(nodeid, ("", "")), [])
        over = {(row.region, row.metric): row for row in _over(earlier)}
        return [over.get((row.region, row.metric), row) for row in rows]

    def _read(self, properties: list[tuple[str, object]], name: str = PROPERTY) -> list[Record]:
        return [*self._texts.read(properties, name)]


def _over(rows: list[Record]) -> list[Record]:
    from ..budgets.verdict import Outcome

    return [row for row in rows if row.outcome is Outcome.OVER]
