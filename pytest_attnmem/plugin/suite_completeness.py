"""Checks that a session ran the whole suite: only then is a missing test known to be deleted."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from ..baselines.entries import Key

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
