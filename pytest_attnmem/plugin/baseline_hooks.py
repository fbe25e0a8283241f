"""A session with a baseline: what it has measured, what is there no more, and what is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .. import errors
from ..baselines.entries import Baseline, Entry, Key, with_all, with_new, without
from ..baselines.file import load, update
from ..errors import AttnMemError
from ..report.record import Record
from .baseline_check import MEASURED
from .options import BASELINE
from .row_transport import own_nodeid
from .suite_completeness import SuiteCompleteness

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

    from .session import Session

#: The name of a report's attribute, and of what a worker leaves to the controller.
_TOLD = "attnmem_baseline"

#: How a session exits that was not stopped.
_ENDED = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)


class BaselineSession:
    """Hooks of a session with a baseline, in the process that runs tests and in that which reports.

    Raises:
        AttnMemError: a file that was asked for, or is in its usual place, cannot be read.
    """

    def __init__(self, config: pytest.Config, session: Session) -> None:
        self._config = config
        self._session = session
        self._mode = session.settings.update
        self._path: Path = session.settings.baseline or config.rootpath / BASELINE
        name = self._path.name
        if self._path.is_relative_to(config.rootpath):
            name = self._path.relative_to(config.rootpath).as_posix()
        missing = self._mode in ("all", "new") and not self._path.exists()
        entries = {} if missing else load(self._path)
        self._baseline = session.baseline = Baseline(name, entries)
        self._suite = SuiteCompleteness(config)
        self._measured: dict[Key, Entry] = {}
        self._passed: set[str] = set()
        self._failed_in_part: set[str] = set()
        """Tests that go on, and may even pass, after one of their subtests has failed."""
        self._stale: tuple[Key, ...] = ()
        self._lines: list[str] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # around those that leave tests out
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, object, object]:
        """See whether tests are left out, by whatever means."""
        names = {item.nodeid for item in items}
        result = yield
        self._suite.selected(names, {own_nodeid(item) for item in items})
        return result

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """See which files could not be looked into."""
        if not report.passed:
            self._suite.unknown.add(report.nodeid)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Remember the tests that are to run."""
        self._suite.coming |= {item.nodeid: own_nodeid(item) for item in session.items}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Another attempt: what an earlier one measured is no longer of interest."""
        item.stash[MEASURED] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Send what was measured with the last report, unless the test failed otherwise."""
        report = yield
        measured = item.stash.setdefault(MEASURED, {})
        if call.excinfo is not None and not isinstance(call.excinfo.value, errors.BudgetExceeded):
            measured.clear()
        if call.when == "teardown":
            told = [
                [[*one.key], one.made.nbytes, one.made.formula, [*one.made.held]]
                for one in measured.values()
            ]
            setattr(report, _TOLD, told)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in what was measured."""
        if report.when == "setup":
            self._failed_in_part.discard(report.nodeid)
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        if report.failed and hasattr(report, "context"):  # as the report of a subtest has
            self._failed_in_part.add(report.nodeid)
        if report.when == "teardown":
            self._suite.done.add(report.nodeid)
            if report.nodeid in self._failed_in_part:
                return
            for key, nbytes, formula, held in getattr(report, _TOLD, ()):
                self._measured[Key(*key)] = Entry(nbytes, formula, tuple(held))

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take in what a worker knew of the tests."""
        told = getattr(node, "workeroutput", {}).get(_TOLD)
        if told is None:
            self._suite.problems["a worker crashed"] = None
        else:
            self._suite.take(told)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Find the entries of tests that are gone; under strict they fail the session."""
        result = yield
        if hasattr(self._config, "workerinput"):
            return result
        self._stale = self._find_stale()
        if self._mode == "prune":
            return result
        for key in self._stale:
            before = self._baseline.entries[key].nbytes
            reason = "in the baseline, and measured no more"
            row = Record(
                key.test,
                key.region,
                reason=reason,
                metric=key.metric,
                baseline_bytes=before,
                baseline_state="stale",
            )
            self._session.rows.setdefault(("the baseline", key.test), []).append(row)
        if self._session.settings.strict and self._stale:
            session.testsfailed += len(self._stale)
        return result

    @pytest.hookimpl(tryfirst=True)  # pytest-xdist sends what it has when its turn comes
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Write the file, where that is asked for; a worker tells the controller what it knows."""
        if hasattr(self._config, "workerinput"):
            output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
            output[_TOLD] = self._suite.told()
        elif self._mode is not None:
            if exitstatus in _ENDED:
                self._write()
            else:
                self._lines.append(
                    f"{self._baseline.name} was not written: the session was stopped"
                )

    @pytest.hookimpl(tryfirst=True)  # before the line that counts
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Say what was written, and what is to be known of the others."""
        from ..report.baseline_notes import notes

        records, baseline = self._session.records, self._baseline
        for line in [*self._lines, *notes(records, baseline, self._measured, self._mode)]:
            terminalreporter.write_line(line)

    def _find_stale(self) -> tuple[Key, ...]:
        here = {key.environment for key in self._measured}
        if self._suite.gap(self._baseline.entries):
            return ()
        told = {(row.nodeid, row.region, row.metric) for row in self._session.records}
        gone = self._suite.gone(key.test for key in self._baseline.entries)
        passed = {self._suite.coming.get(nodeid, nodeid) for nodeid in self._passed}
        return tuple(
            key
            for key in sorted(self._baseline.entries)
            if key.environment in here
            and key not in self._measured
            and key[:3] not in told
            and (key.test in passed or key.test in gone)
        )

    def _write(self) -> None:
        measured, stale = self._measured, self._stale
        if self._mode == "prune":
            gap = self._suite.gap(self._baseline.entries)
            if not gap and not measured:
                gap = "nothing was measured, so it is not known which entries are of this machine"
            if gap:
                self._refuse(f"prune needs the whole suite: {gap}")
                return
        changes = {
            "all": lambda entries: with_all(entries, measured),
            "new": lambda entries: with_new(entries, measured),
            "prune": lambda entries: without(entries, stale),
        }
        try:
            before, after = update(self._path, changes[str(self._mode)])
        except AttnMemError as error:
            self._refuse(str(error))
            return
        from ..report.baseline_notes import changed

        self._lines += changed(before, after, self._baseline.name, str(self._mode))

    def _refuse(self, why: str) -> None:
        self._session.problems[f"{self._baseline.name} was not written: {why}"] = None
