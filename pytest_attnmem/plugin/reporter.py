"""Collects and reports the rows of a session, in the controller.

Every session imports this module, so heavy imports wait until there is a row.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .row_transport import CRASH_PROPERTY, PROPERTY, has_rows, without_timelines
from .session import SESSION

if TYPE_CHECKING:
    from collections.abc import Generator

    from ..report.record import Record
    from ..report.summary import Rows
    from .session import Session


#: The number of tests that a line names.
_NAMED = 3


class Worker:
    """The reporter of a worker, which sends its environment to the controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)  # before pytest-xdist sends the output
    def pytest_sessionfinish(self) -> None:
        """Sends the environment and the problems."""
        output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
        session = self._config.stash[SESSION]
        output["attnmem_environment"] = session.describe()
        output["attnmem_problems"] = [*session.problems]


class Reporter:
    """The reporter of the controller, or of a session without workers."""

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self._config = config
        self._session = session
        self._collector: RowCollector | None = None
        """Collects the rows, from the first report that has one."""
        self._problems: list[str] = []
        """The reasons why the session fails although no test failed."""
        self._finished: pytest.Session | None = None

    @pytest.hookimpl(tryfirst=True)  # before the JUnit file copies the properties
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collects the rows of a test."""
        if report.failed:
            self._session.failed.add(report.nodeid)
        names = {name for name, _ in report.user_properties}
        if self._collector is None and (PROPERTY in names or CRASH_PROPERTY in names):
            self._collector = RowCollector(self._session)
        if self._collector is not None:
            self._collector.add_report(report)
            if PROPERTY in names:
                report.user_properties = without_timelines(report.user_properties)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Collects the environment and the problems of a worker."""
        output = getattr(node, "workeroutput", {})
        self._session.problems |= dict.fromkeys(output.get("attnmem_problems", ()))
        environment = output.get("attnmem_environment")
        if environment:
            from ..measurement.environment import merged

            self._session.environment = merged(self._session.environment, environment)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Fails the session for tests that were over, or under ``all`` not enforced, and passed."""
        try:
            return (yield)
        finally:  # also when the session is stopped
            if self._session.records:
                from ..report.summary import over, unproven
                from ..units import format_some

                rows, failed = self._session.rows, self._session.failed
                if tests := over(rows, failed):
                    names = format_some(tests, _NAMED)
                    self._fail(session, tests, f"over a budget and did not fail: {names}")
                if problem := self._unread_default(rows):
                    self._problems.append(problem)
                strict = self._session.settings.strict == "all"
                if strict and (tests := unproven(rows, failed)):
                    self._fail(session, tests, "not enforced (--attnmem-strict all)")

    def _unread_default(self, rows: Rows) -> str:
        """Returns the message on a symbol of ``--attnmem-default`` that no test gives; or "".

        One of an ini file counts only if all tests ran: some may have no test with the symbol.
        """
        default, config = self._session.settings.default, self._config
        if default is None:
            return ""
        words = map(str, config.invocation_params.args)
        named = any(word.startswith("--attnmem-default") for word in words)
        options = ("keyword", "markexpr", "lf", "stepwise")
        some = any(config.getoption(name, None) for name in options)
        if not named and (some or config.args_source is config.ArgsSource.ARGS):
            return ""
        from ..report.summary import without_value

        symbol, hint = without_value(rows, default.text, default.read)
        return symbol and (
            f"--attnmem-default {default.text!r}: no test gives {symbol!r} a value; name an"
            f" argument or a fixture of a test so, or write a size such as '2 GiB'{hint}"
        )

    def _fail(self, session: pytest.Session, tests: list[str], problem: str) -> None:
        session.testsfailed += len(tests)
        count = "1 test was" if len(tests) == 1 else f"{len(tests)} tests were"
        self._problems.append(f"{count} {problem}")

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Writes the requested files."""
        self._finished = session
        self._session.write_traces()
        self._session.write_reports(self._config.rootpath)
        self._fail_for_problems()

    def _fail_for_problems(self) -> None:
        passed = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)
        session = self._finished
        if (self._session.problems or self._problems) and session and session.exitstatus in passed:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints the totals or the table, and the problems."""
        if self._session.records:
            with self._session.collect_problem("the budgets"):
                self._print(terminalreporter)
            self._fail_for_problems()
        for problem in [*self._session.problems, *self._problems]:
            terminalreporter.write_line(f"attnmem: {problem}", red=True)
        if self._session.settings.disable:
            terminalreporter.write_line("attnmem: disabled, budgets are not enforced")
        if self._session.settings.github:
            self._annotate(terminalreporter)

    def _print(self, terminalreporter: Any) -> None:
        from ..report import terminal
        from ..report.summary import summarise

        summary = summarise(
            replace(row, nodeid=_from_here(row.nodeid, self._config))
            for row in self._session.records
        )
        if self._session.settings.report:
            shown = terminal.with_equal_ranks_together(summary)
            terminalreporter.ensure_newline()
            terminalreporter.section("memory budgets", sep="=")
            for row in terminal.render_table(shown, _width(terminalreporter)):
                terminalreporter.write(row.text)
                terminalreporter.write(row.outcome, **_colour(row.colour))
                terminalreporter.write(f"{row.rest}\n")
            terminalreporter.write_line("")
            for note in terminal.render_notes(shown):
                terminalreporter.write_line(note)
        text = terminal.render_line(summary, hint=not self._session.settings.report)
        terminalreporter.write_line(text, **_colour(terminal.colour_of(summary)))
        if not self._session.settings.report:
            for line in terminal.render_reasons(summary):
                terminalreporter.write_line(line)

    def _annotate(self, terminalreporter: Any) -> None:
        from ..report.github import workflow_commands
        from ..report.summary import summarise

        summary = summarise(self._session.records)
        for command in workflow_commands(summary, self._config.rootpath, os.environ):
            terminalreporter.write_line(command)


def _from_here(nodeid: str, config: pytest.Config) -> str:
    """Returns a node id that pytest takes in the folder it runs in, as its own summary has it."""
    folder = config.invocation_params.dir
    path, colons, names = nodeid.partition("::")
    if folder != config.rootpath:
        with suppress(ValueError):  # on another drive
            path = Path(os.path.relpath(config.rootpath / path, folder)).as_posix()
    return f"{path}{colons}{names}"


def _width(terminalreporter: Any) -> int:
    """Returns the width of the terminal; 0, which limits nothing, if the output goes elsewhere."""
    writer = terminalreporter._tw
    return int(writer.fullwidth) if writer.hasmarkup else 0


def _colour(name: str) -> dict[str, bool]:
    """Returns the keywords of pytest's writer for a colour."""
    return {name: True} if name else {}


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
