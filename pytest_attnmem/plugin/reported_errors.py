"""Translates errors of this package that reach pytest when it makes a report, and not before.

These are the errors of ``unittest``, of subtests and of fixtures. Every session imports this
module, so heavy imports wait for such an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..errors import StartAgain
from .measured_tests import is_measured
from .plan import PLAN
from .session import can_measure

if TYPE_CHECKING:
    from collections.abc import Generator

    from .session import Session


class ReportedErrors:
    """The hook that skips tests and subtests which asked for what nobody can know."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Skips a test, with its fixtures and subtests; strict fails a test that is measured."""
        kept: list[pytest.ExceptionInfo[BaseException]] = getattr(item, "_excinfo", None) or []
        if not (call.excinfo or kept) or not can_measure():
            return (yield)
        if call.excinfo is not None and _runs_again(item, call.excinfo.value):
            call.excinfo = None  # of a subtest: the test runs again, with all its subtests
        if not (self._session.settings.strict and is_measured(item, self._session)):
            if call.excinfo is not None:
                call.excinfo = _skipped(call.excinfo)
            kept[:] = map(_skipped, kept)
        return (yield)


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


def _skipped(found: pytest.ExceptionInfo[BaseException]) -> pytest.ExceptionInfo[BaseException]:
    from .endings import skipped_if_unknown

    skip = skipped_if_unknown(found.value)
    if skip is found.value:
        return found
    return pytest.ExceptionInfo.from_exception(skip.with_traceback(found.tb))
