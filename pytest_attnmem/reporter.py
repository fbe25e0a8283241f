"""Collecting every row of a session, and reporting them: on the controller alone.

Imported by the plugin in every session, so nothing heavy is imported before there is a row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from .session import Session

#: The name of a row among a report's user properties, which travel to the controller and JUnit.
PROPERTY = "attnmem"

#: The options that name a file to write; each is a module of ``report`` that renders the session.
WRITTEN = ("json", "csv", "markdown", "html", "trend")


class Worker:
    """In a process that only runs tests: tell the controller where they ran."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(tryfirst=True)  # pytest-xdist sends what it has when its turn comes
    def pytest_sessionfinish(self) -> None:
        """Hand over the environment."""
        from .environment import describe

        output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
        output["attnmem_environment"] = describe()


class Reporter:
    """In the process that pytest was started as."""

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self._config = config
        self._session = session
        self._problem = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in a test's rows, once it can have no more."""
        if report.failed:
            self._session.failed.add(report.nodeid)
        if report.when == "teardown" and any(
            name == PROPERTY for name, _ in report.user_properties
        ):
            from .rows import read

            process = getattr(report, "worker_id", "")
            self._session.rows[process, report.nodeid] = [*read(report.user_properties)]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take in where a worker's tests ran."""
        environment = getattr(node, "workeroutput", {}).get("attnmem_environment")
        if environment:
            from .environment import merged

            self._session.environment = merged(self._session.environment, environment)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Under strict, fail the session for budgets of tests that were skipped."""
        result = yield
        if self._session.settings.strict and self._session.records:
            from .verdict import Outcome

            unproven = {
                row.nodeid
                for row in self._session.records
                if row.outcome is Outcome.NOT_ENFORCED and row.nodeid not in self._session.failed
            }
            session.testsfailed += len(unproven)
            if unproven:
                tests = "test was" if len(unproven) == 1 else "tests were"
                self._problem = f"attnmem: {len(unproven)} {tests} not enforced (--attnmem-strict)"
        return result

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the files that were asked for."""
        settings = self._session.settings
        paths = {name: path for name in WRITTEN if (path := getattr(settings, name)) is not None}
        if not paths:
            return
        from importlib import import_module

        from .environment import describe
        from .summary import summarise

        summary = summarise(self._session.records)
        environment = self._session.environment or describe()
        for name, path in paths.items():
            renderer = import_module(f".report.{name}", __package__)
            try:
                text = renderer.render(summary, environment)
                path.write_text(text, "utf-8", errors="backslashreplace")  # as JSON escapes them
            except OSError as error:
                self._problem = f"attnmem: cannot write {path}: {error.strerror}"
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Print the line or the table, where there is anything to tell."""
        if self._session.records:
            self._print(terminalreporter)
        if self._problem:
            terminalreporter.write_line(self._problem, red=True)

    def _print(self, terminalreporter: Any) -> None:
        from .report.terminal import render_line, render_table
        from .summary import summarise

        summary = summarise(self._session.records)
        if self._session.settings.report:
            terminalreporter.section("memory budgets", sep="=")
            for line in render_table(summary):
                terminalreporter.write_line(line)
        line = render_line(summary, hint=not self._session.settings.report)
        terminalreporter.write_line(line)
