"""The hooks of a session with a baseline: collect numbers, find stale entries, write the file."""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest

from .. import errors
from ..baselines.entries import Baseline, Entry, Key, with_all, with_new, without
from ..baselines.environment_key import split
from ..baselines.file import load, update
from ..errors import AttnMemError
from ..report.record import Record
from .baseline_numbers import ATTEMPT, Attempt
from .options import BASELINE
from .plan import own_nodeid
from .session import Session

#: Options of pytest that leave tests out before they are collected, or run none.
_PARTIAL = (
    ("lf", "--lf was given"),
    ("stepwise", "--stepwise was given"),
    ("collectonly", "no test ran"),
    ("setuponly", "no test ran"),
    ("setupplan", "no test ran"),
)


class SuiteCompleteness:
    """The tests that were collected, and those that were left out or finished."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.found: set[str] = set()
        """The node IDs of the collected tests, also of those that were then left out."""
        self.collected: dict[str, str] = {}
        """The tests to run: node ID in reports → node ID without xdist."""
        self.finished: set[str] = set()
        """The tests that ran or were skipped, by node ID in reports."""
        self.uncollected: set[str] = set()
        """The node IDs that could not be collected, such as a file that does not import."""
        self.problems: dict[str, None] = {
            why: None for option, why in _PARTIAL if config.getoption(option, False)
        }
        """The reasons why not all tests ran, in order."""

    def record_selection(self, collected: Iterable[str], selected: Iterable[str]) -> None:
        """Records that only some of the collected tests were selected."""
        found = {*collected}
        self.found |= found
        if left_out := len(found - {*selected}):
            self.problems["tests were left out" if left_out > 1 else "a test was left out"] = None

    def to_worker_output(self) -> dict[str, Any]:
        """Returns the data that a worker sends to the controller."""
        return {
            "found": sorted(self.found),
            "collected": self.collected,
            "uncollected": sorted(self.uncollected),
            "problems": [*self.problems],
        }

    def merge(self, output: Mapping[str, Any]) -> None:
        """Adds the data of a worker."""
        self.found |= {*output["found"]}
        self.collected |= output["collected"]
        self.uncollected |= {*output["uncollected"]}
        self.problems |= dict.fromkeys(output["problems"])

    def why_partial(self, entries: Iterable[Key]) -> str:
        """Returns why the session did not run all tests of ``entries``; empty if it did."""
        if self.problems:
            return next(iter(self.problems))
        given = self._given()
        if any("::" in path for path in given):
            return "single tests were asked for"
        if name := self._outside(given, entries):
            return f"{name} is not among the paths that were given"
        if {*self.collected} - self.finished:
            return "not all tests ran"
        return ""

    def lacks_all(self, entries: Collection[Key]) -> bool:
        """Returns True if tests were collected, the entries' among them, and no entry is of one."""
        if not self.found or any(key.test in self.found for key in entries):
            return False
        given = self._given()
        some = any(self._config.getoption(option, False) for option, _ in _PARTIAL)
        some = some or any("::" in path for path in given)
        return bool(entries) and not some and not self._outside(given, entries)

    def _outside(self, given: Sequence[str], entries: Iterable[Key]) -> str:
        """Returns a file of the entries that is not among the paths that were given, or ""."""
        for name in sorted({_file(key.test) for key in entries}) if given else ():
            file = Path(os.path.realpath(self._config.rootpath / name))
            if file.exists() and not any(file.is_relative_to(path) for path in given):
                return name
        return ""

    def vanished(self, tests: Iterable[str]) -> set[str]:
        """Returns the tests that are known to exist no longer."""
        missing = {*tests} - {*self.collected.values()}
        files = {_file(test) for test in self.collected.values()}
        return {
            test
            for test in missing
            if not test.startswith((*self.uncollected,))
            and (_file(test) in files or not (self._config.rootpath / _file(test)).exists())
        }

    def _given(self) -> list[str]:
        """Returns the paths on the command line, made absolute."""
        config = self._config
        if config.args_source is not config.ArgsSource.ARGS:
            return []
        return [os.path.realpath(config.invocation_params.dir / path) for path in config.args]


def _file(test: str) -> str:
    return test.partition("::")[0]


#: The name of a report's attribute, and of the data that a worker sends to the controller.
_SENT = "attnmem_baseline"

#: The errors of tests whose numbers are known nevertheless.
_JUDGED = (errors.BudgetExceeded, errors.NotEnforced)

#: The exit codes of a session that was not stopped.
_COMPLETED = (
    pytest.ExitCode.OK,
    pytest.ExitCode.TESTS_FAILED,
    pytest.ExitCode.NO_TESTS_COLLECTED,
)


class BaselineSession:
    """The hooks of a session with a baseline, in workers and in the controller.

    Raises:
        AttnMemError: the baseline file cannot be read.
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
        """The tests with a failed subtest, which may pass nevertheless."""
        self._stale: tuple[Key, ...] = ()
        self._lines: list[str] = []

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # around plugins that leave tests out
    def pytest_collection_modifyitems(
        self, items: list[pytest.Item]
    ) -> Generator[None, object, object]:
        """Records whether tests are left out."""
        collected = {item.nodeid for item in items}
        result = yield
        self._suite.record_selection(collected, {own_nodeid(item) for item in items})
        return result

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Records the files that could not be collected."""
        if not report.passed:
            self._suite.uncollected.add(report.nodeid)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Records the tests that are to run."""
        self._suite.collected |= {item.nodeid: own_nodeid(item) for item in session.items}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """Forgets the numbers of an earlier attempt."""
        item.stash[ATTEMPT] = Attempt()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Sends the numbers with the last report, unless the test failed for another reason."""
        report = yield
        measured = item.stash.setdefault(ATTEMPT, Attempt()).measured
        if call.excinfo is not None and not isinstance(call.excinfo.value, _JUDGED):
            measured.clear()
        if call.when == "teardown":
            numbers = [([*one.key], astuple(one.made)) for one in measured.values()]
            setattr(report, _SENT, numbers)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collects the numbers of a test."""
        if report.when == "setup":
            self._failed_in_part.discard(report.nodeid)
        if report.when == "call" and report.passed:
            self._passed.add(report.nodeid)
        if report.failed and hasattr(report, "context"):  # the report of a subtest
            self._failed_in_part.add(report.nodeid)
        if report.when == "teardown":
            self._suite.finished.add(report.nodeid)
            if report.nodeid in self._failed_in_part:
                return
            for key, (nbytes, formula, held, *rest) in getattr(report, _SENT, ()):
                self._measured[Key(*key)] = Entry(nbytes, formula, tuple(held), *rest)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Collects the tests of a worker."""
        output = getattr(node, "workeroutput", {}).get(_SENT)
        if output is None:
            self._suite.problems["a worker crashed"] = None
        else:
            self._suite.merge(output)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session: pytest.Session) -> Generator[None, object, object]:
        """Finds the stale entries; under ``--attnmem-strict all`` they fail the session."""
        result = yield
        if hasattr(self._config, "workerinput"):
            return result
        self._check_entries()
        self._stale = self._find_stale()
        if self._mode == "prune":
            return result
        for key in self._stale:
            reason = "in the baseline, but no longer measured"
            row = Record(
                key.test,
                key.region,
                reason=reason,
                metric=key.metric,
                baseline_bytes=self._baseline.entries[key].nbytes,
                baseline_state="stale",
            )
            self._session.rows.setdefault(("the baseline", key.test), []).append(row)
        if self._session.settings.strict == "all" and self._stale:
            many = len(self._stale)
            entries = "1 stale entry" if many == 1 else f"{many} stale entries"
            fails = "fails" if many == 1 else "fail"
            self._session.problems[
                f"{entries} of {self._baseline.name} {fails} the session (--attnmem-strict all)"
            ] = None
        return result

    @pytest.hookimpl(tryfirst=True)  # before pytest-xdist sends the output
    def pytest_sessionfinish(self, exitstatus: int) -> None:
        """Writes the file if ``--attnmem-update`` is given; a worker sends its tests instead."""
        if hasattr(self._config, "workerinput"):
            output: dict[str, Any] = self._config.workeroutput  # type: ignore[attr-defined]
            output[_SENT] = self._suite.to_worker_output()
        elif self._mode is not None:
            forked = self._session.is_forked
            if exitstatus in _COMPLETED and not forked:
                with self._session.collect_problem(self._baseline.name):
                    self._write()
            else:
                own = "this process was forked from the session's"
                why = own if forked else "the session was stopped"
                self._lines.append(f"{self._baseline.name} was not written: {why}")

    @pytest.hookimpl(tryfirst=True)  # before the line with the totals
    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Prints the changes of the file, and notes on other entries."""
        from ..report.baseline_notes import notes

        records, baseline = self._session.records, self._baseline
        tolerance = self._session.settings.tolerance
        found: list[str] = []
        with self._session.collect_problem(f"the notes on {baseline.name}"):
            found += notes(records, baseline, self._measured, self._mode, tolerance)
        for line in [*self._lines, *found]:
            terminalreporter.write_line(line)

    def _check_entries(self) -> None:
        """Fails a session that was asked for a baseline which has nothing to say in it."""
        entries, asked = self._baseline.entries, self._session.settings.baseline is not None
        if asked and self._mode is None and self._suite.lacks_all(entries):
            count = "its 1 entry" if len(entries) == 1 else f"any of its {len(entries)} entries"
            self._session.problems[
                f"{self._baseline.name}: no test was collected that {count} is of, as"
                f" {min(entries).test}; run under the rootdir of its tests, now"
                f" {self._config.rootpath}, or write it again: --attnmem-update all"
            ] = None

    def _find_stale(self) -> tuple[Key, ...]:
        # Entries of another version of torch are its own; those of no version are anybody's.
        environments = {key.environment for key in self._measured}
        environments |= {split(environment)[0] for environment in environments}
        if self._suite.why_partial(self._baseline.entries):
            return ()
        reported = {(row.nodeid, row.region, row.metric) for row in self._session.records}
        vanished = self._suite.vanished(key.test for key in self._baseline.entries)
        passed = self._passed_tests()
        return tuple(
            key
            for key in sorted(self._baseline.entries)
            if key.environment in environments
            and key not in self._measured
            and key[:3] not in reported
            and (key.test in passed or key.test in vanished)
        )

    def _passed_tests(self) -> set[str]:
        return {self._suite.collected.get(nodeid, nodeid) for nodeid in self._passed}

    def _write(self) -> None:
        measured, stale = self._measured, self._stale
        if self._mode == "prune":
            why_partial = self._suite.why_partial(self._baseline.entries)
            if not why_partial and not measured:
                why_partial = "nothing was measured, so the entries of this machine are not known"
            if why_partial:
                self._refuse(f"prune needs the whole suite: {why_partial}")
                return
        changes = {
            "all": lambda entries: with_all(entries, measured),
            "new": lambda entries: with_new(entries, measured),
            "prune": lambda entries: without(entries, stale),
        }
        try:
            # A session that is given the file must be able to read what this one wrote.
            named = self._session.settings.baseline is not None
            before, after = update(self._path, changes[str(self._mode)], create=named)
        except AttnMemError as error:
            self._refuse(str(error))
            return
        from ..report.baseline_notes import changed, left_out

        name = self._baseline.name
        lines = [changed(before, after, name, str(self._mode))]
        if self._mode != "prune":
            lines.append(left_out(self._session.records, measured, self._passed_tests(), name))
        quiet = self._config.option.verbose < 0
        self._lines += [line for part in lines for line in (part[:1] if quiet else part)]

    def _refuse(self, why: str) -> None:
        self._session.problems[f"{self._baseline.name} was not written: {why}"] = None
