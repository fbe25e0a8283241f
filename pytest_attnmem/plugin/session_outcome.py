"""Records why a session of pytest could not measure its tests, and measures unmarked tests."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from ..budgets.parsing import parse
from .session import SESSION

#: A limit for tests without a marker, so that they are measured; no device has as much.
_UNLIMITED: Final = f"{1 << 40} TiB"


class SessionOutcome:
    """A plugin that collects the errors of one session; ``worktree`` is the root of its files."""

    def __init__(self, worktree: Path) -> None:
        self._worktree = worktree
        self._rootdir = ""
        self.errors: list[str] = []
        """The last line of each error, in order."""

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Has the session measure all tests."""
        root = self._worktree.resolve()
        if config.rootpath.resolve().is_relative_to(root):
            self._rootdir = config.rootpath.resolve().relative_to(root).as_posix()
        session = config.stash.get(SESSION, None)
        if session is not None and session.settings.default is None:
            unlimited = parse((_UNLIMITED,), {})
            session.settings = replace(session.settings, default=unlimited, strict="off")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Records a module that cannot be imported."""
        if report.failed:
            self.errors.append(_last_line(report.longrepr))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records a test that fails or is skipped."""
        if report.failed:
            self.errors.append(_last_line(report.longrepr))
        elif report.skipped and isinstance(report.longrepr, tuple):
            self.errors.append(str(report.longrepr[2]))

    def write(self, path: Path, exit_code: int) -> None:
        """Writes the outcome as JSON."""
        if exit_code == pytest.ExitCode.USAGE_ERROR and not self.errors:
            self.errors.append("pytest found no such test, or refused an option")
        outcome: dict[str, Any] = {"exit_code": exit_code, "errors": self.errors}
        path.write_text(json.dumps({**outcome, "rootdir": self._rootdir}), "utf-8")


def _last_line(longrepr: object) -> str:
    """Returns the error of a report: ``ModuleNotFoundError: No module named 'x'``."""
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message).partition("\n")[0]
    lines = [line.strip() for line in str(longrepr).splitlines() if line.strip()]
    errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
    return (errors or lines or [""])[-1]
