"""Whether a session ran the whole suite: only then can it be told that a test is gone."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pytest

    from ..baselines.entries import Key

#: Options of pytest that leave tests out before anybody can count them, or run none.
_PARTIAL = (
    ("lf", "--lf was given"),
    ("stepwise", "--stepwise was given"),
    ("collectonly", "no test ran"),
    ("setuponly", "no test ran"),
    ("setupplan", "no test ran"),
)


class SuiteCompleteness:
    """What was collected, what was left out of it, and what ran."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self.coming: dict[str, str] = {}
        """Tests that were to run, as reports name them → as they are named without xdist."""
        self.done: set[str] = set()
        """Those that ran, or were skipped, as reports name them."""
        self.unknown: set[str] = set()
        """What could not be looked into, such as a file that does not import."""
        self.problems: dict[str, None] = {
            why: None for option, why in _PARTIAL if config.getoption(option, False)
        }
        """Why not all of it ran."""

    def selected(self, before: Iterable[str], after: Iterable[str]) -> None:
        """Take in that of the tests that were found some were chosen."""
        if left := len({*before} - {*after}):
            self.problems["tests were left out" if left > 1 else "a test was left out"] = None

    def told(self) -> dict[str, Any]:
        """What a worker knows, for the controller."""
        return {
            "coming": self.coming,
            "unknown": sorted(self.unknown),
            "problems": [*self.problems],
        }

    def take(self, told: Mapping[str, Any]) -> None:
        """Take in what a worker knows."""
        self.coming |= told["coming"]
        self.unknown |= {*told["unknown"]}
        self.problems |= dict.fromkeys(told["problems"])

    def gap(self, entries: Iterable[Key]) -> str:
        """Why this was not the whole suite, as far as ``entries`` go; empty if it was."""
        if self.problems:
            return next(iter(self.problems))
        given = self._given()
        if any("::" in path for path in given):
            return "single tests were asked for"
        for name in sorted({_file(key.test) for key in entries}) if given else ():
            file = Path(os.path.realpath(self._config.rootpath / name))
            if file.exists() and not any(file.is_relative_to(path) for path in given):
                return f"{name} is not among the paths that were given"
        if {*self.coming} - self.done:
            return "not all tests ran"
        return ""

    def gone(self, tests: Iterable[str]) -> set[str]:
        """Those of which it is known that there are no such tests any more."""
        missing = {*tests} - {*self.coming.values()}
        collected = {_file(test) for test in self.coming.values()}
        return {
            test
            for test in missing
            if not test.startswith((*self.unknown,))
            and (_file(test) in collected or not (self._config.rootpath / _file(test)).exists())
        }

    def _given(self) -> list[str]:
        """The paths on the command line, each absolute."""
        config = self._config
        if config.args_source is not config.ArgsSource.ARGS:
            return []
        return [os.path.realpath(config.invocation_params.dir / path) for path in config.args]


def _file(test: str) -> str:
    return test.partition("::")[0]
