"""Collects rows from the reports of tests, which may run in other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .row_transport import CRASH_PROPERTY, PROPERTY, has_rows

if TYPE_CHECKING:
    import pytest

    from ..report.record import Record
    from .session import Session


class RowCollector:
    """Collects the rows of each test when it has ended, or when its process has crashed."""

    def __init__(self, session: Session) -> None:
        self._rows = session.rows
        self._texts = session.row_texts
        self._begun: dict[tuple[str, str], list[tuple[str, object]]] = {}
        """The properties that a test sent before its body, by process and test."""
        self._died: dict[str, tuple[str, str]] = {}
        """The process and test of its rows, by each test whose process crashed."""

    def add_report(self, report: pytest.TestReport) -> None:
        """Adds the rows of a report."""
        key = (getattr(report, "worker_id", ""), report.nodeid)
        properties = report.user_properties
        if report.when == "setup" and any(name == CRASH_PROPERTY for name, _ in properties):
            self._begun[key] = properties
        elif report.when == "teardown":
            self._begun.pop(key, None)
            if has_rows(properties):
                self._rows[key] = self._after_death(report.nodeid, self._read(properties))
        elif str(report.when) == "???":  # the report of pytest-xdist for a worker that died
            node: Any = getattr(report, "node", None)
            key = (node.gateway.id if node else "", report.nodeid)
            if begun := self._begun.pop(key, []):
                rows = _over(self._read(begun)) or self._read(begun, CRASH_PROPERTY)
                self._rows[key] = self._after_death(report.nodeid, rows)
                self._died[report.nodeid] = key

    def _after_death(self, nodeid: str, rows: list[Record]) -> list[Record]:
        """Returns the rows of another attempt; a row of an earlier attempt that was over stays."""
        earlier = self._rows.pop(self._died.pop(nodeid, ("", "")), [])
        over = {(row.region, row.metric): row for row in _over(earlier)}
        return [over.get((row.region, row.metric), row) for row in rows]

    def _read(self, properties: list[tuple[str, object]], name: str = PROPERTY) -> list[Record]:
        return [*self._texts.read(properties, name)]


def _over(rows: list[Record]) -> list[Record]:
    from ..budgets.verdict import Outcome

    return [row for row in rows if row.outcome is Outcome.OVER]
