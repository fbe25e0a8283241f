"""Records why a session of pytest could not measure its tests, and measures unmarked tests.

Other plugins start no processes and trace no lines in the session.
"""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pytest

from ..budgets.parsing import parse
from ..report.record import to_dict
from .session import SESSION, Session

#: A limit for tests without a marker, so that they are measured; no device has as much.
UNLIMITED: Final = f"{1 << 40} TiB"
#: The options that keep pytest-xdist and pytest-cov still, by an option of the plugin.
_STILL: Final = MappingProxyType({"numprocesses": "-n0", "no_cov": "--no-cov"})


class SessionOutcome:
    """A plugin that collects the errors of one session; ``worktree`` is the root of its files."""

    def __init__(self, worktree: Path) -> None:
        self._worktree = worktree
        self._rootdir = ""
        self.errors: list[str] = []
        """The last line of each error, in order."""
        self.problems: dict[str, str] = {}
        """The last line of the first error of each test."""
        self.used: dict[str, str] = {}
        """What stood in for something that is not here, and for what."""
        self._session: Session | None = None

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_parse(self) -> Generator[None, pytest.Config, pytest.Config]:
        """Records an option that pytest refuses, or a conftest file that cannot be imported."""
        try:
            return (yield)
        except Exception as error:
            self._refused(error)
            raise

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_load_initial_conftests(
        self, early_config: pytest.Config, args: list[str]
    ) -> Generator[None, None, None]:
        """Adds options of plugins that are loaded here, and read them in this hook."""
        stay_still(early_config, args)
        return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_cmdline_main(self) -> Generator[None, object, object]:
        """Records a test that pytest does not find."""
        try:
            return (yield)
        except pytest.UsageError as error:
            self._refused(error)
            raise

    def _refused(self, error: Exception) -> None:
        self.errors.append(" ".join(str(error).split()))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Has the session measure all tests; the plugin has read its settings by now."""
        config = session.config
        root = self._worktree.resolve()
        if config.rootpath.resolve().is_relative_to(root):
            self._rootdir = config.rootpath.resolve().relative_to(root).as_posix()
        own = self._session = config.stash.get(SESSION, None)
        if own is not None and own.settings.default is None:
            unlimited = parse((UNLIMITED,), {})
            own.settings = replace(own.settings, default=unlimited, strict="off")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Records a module that cannot be imported."""
        if report.failed:
            self.errors.append(_last_line(report.longrepr))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Records a test that fails or is skipped."""
        if report.failed:
            error = _last_line(report.longrepr)
        elif report.skipped and isinstance(report.longrepr, tuple):
            error = str(report.longrepr[2])
        else:
            return
        self.errors.append(error)
        self.problems.setdefault(report.nodeid, error)

    def write(self, path: Path, exit_code: int) -> None:
        """Writes the outcome as JSON; a report file would take time for what nobody reads."""
        rows = [] if self._session is None else self._session.records
        outcome: dict[str, Any] = {"exit_code": exit_code, "rootdir": self._rootdir}
        outcome |= {"errors": self.errors, "problems": self.problems, "used": self.used}
        outcome["rows"] = [to_dict(row) for row in rows]
        path.write_text(json.dumps(outcome), "utf-8")


def stay_still(early_config: pytest.Config, args: list[str]) -> None:
    """Adds the options that keep pytest-xdist and pytest-cov still, where they are loaded."""
    known = early_config.known_args_namespace
    end = args.index("--") if "--" in args else len(args)
    args[end:end] = [option for name, option in _STILL.items() if hasattr(known, name)]
    if hasattr(known, "no_cov"):
        known.no_cov = True


def _last_line(longrepr: object) -> str:
    """Returns the error of a report: ``ModuleNotFoundError: No module named 'x'``."""
    crash = getattr(longrepr, "reprcrash", None)
    if crash is not None:
        # A syntax error begins with its place, which is indented.
        whole = [line for line in str(crash.message).splitlines() if line[:1].strip()]
        return whole[0] if whole else ""
    lines = [line.strip() for line in str(longrepr).splitlines() if line.strip()]
    errors = [line.removeprefix("E").strip() for line in lines if line.startswith("E ")]
    return (errors or lines or [""])[-1]
