"""Translates errors when pytest makes a report of them.

Those of this package that reach pytest only then are the errors of ``unittest``, of subtests and of
fixtures. All errors lose this package's frames, so that the last one shown is the program's. Every
session imports this module, so heavy imports wait for such an error.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

from ..errors import StartAgain
from .plan import PLAN
from .session import can_measure


class ReportedErrors:
    """The hook that skips or fails tests and subtests which asked for what nobody can know."""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Skips or fails a test, with its fixtures and subtests."""
        kept: list[pytest.ExceptionInfo[BaseException]] = getattr(item, "_excinfo", None) or []
        if not (call.excinfo or kept) or not can_measure():
            return (yield)
        if call.excinfo is not None and _runs_again(item, call.excinfo.value):
            call.excinfo = None  # of a subtest: the test runs again, with all its subtests
        if call.excinfo is not None:
            call.excinfo = _translated(call.excinfo, item)
        kept[:] = [_translated(one, item) for one in kept]
        if not item.config.getoption("fulltrace", False):
            if call.excinfo is not None:
                call.excinfo = _of_program(call.excinfo)
            kept[:] = map(_of_program, kept)
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        """Describes an error of a module's own code again, without this package's frames."""
        report = yield
        call: pytest.CallInfo[object] | None = getattr(report, "call", None)
        if call is None or call.excinfo is None or not can_measure():
            return report
        if collector.config.getoption("fulltrace", False):
            return report
        call.excinfo = _of_program(call.excinfo)
        described = collector.repr_failure(call.excinfo)
        if report.failed and not isinstance(described, str):
            report.longrepr = described
        return report


def _runs_again(item: pytest.Item, error: BaseException) -> bool:
    """Returns True if the error of a subtest has its test run again."""
    from ..backends.registry import starts_again
    from ..measurement.window_stack import is_measured as is_running
    from ..measurement.window_stack import program_failed

    plan = item.stash.get(PLAN, None)
    measured = [] if plan is None else [primed.backend for _, primed in plan.budgets]
    for backend in filter(is_running, measured):
        program_failed(backend, error)
        if starts_again(backend):
            return True
    return isinstance(error, StartAgain)


def _of_program(found: pytest.ExceptionInfo[BaseException]) -> pytest.ExceptionInfo[BaseException]:
    from ..program_frames import hide_own_frames

    hide_own_frames(found.value)
    return pytest.ExceptionInfo.from_exception(found.value)


def _translated(
    found: pytest.ExceptionInfo[BaseException], item: pytest.Item
) -> pytest.ExceptionInfo[BaseException]:
    from .endings import failure_of, skipped_if_unknown

    error = skipped_if_unknown(found.value)
    if error is found.value:
        return found
    error = failure_of(item, error) or error
    return pytest.ExceptionInfo.from_exception(error.with_traceback(found.tb))


_PACKAGE = Path(__file__).parents[1]


def point_at_test(
    item: pytest.Item, call: pytest.CallInfo[None], report: pytest.TestReport
) -> None:
    """Moves a failure's line from this package to the test's first; no frame is the test's own.

    ``--tb=line``, editors and annotations of a pull request show it.
    """
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None or call.excinfo is None or _PACKAGE not in Path(crash.path).parents:
        return
    path, first, _ = item.reportinfo()
    crash.path, crash.lineno = str(path), (first or 0) + 1


#: The function of torch/cuda/__init__.py that raises where the build or the driver is missing.
_RAISES: Final = "_lazy_init"
_HINT: Final = (
    "there is no CUDA device here; --attnmem-backend simulated:H100 shows the test one, and"
    " measures its memory"
)


def add_hint(call: pytest.CallInfo[None], report: pytest.TestReport) -> None:
    """Adds the backend that needs no device to the report of a failure for want of one."""
    frames = call.excinfo.traceback[-1:] if call.excinfo is not None else ()
    if any(frame.name == _RAISES for frame in frames):
        report.sections.append(("memory budget", _HINT))
