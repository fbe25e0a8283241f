"""Translates errors of this package that reach pytest when it makes a report, and not before.

These are the errors of ``unittest``, of subtests and of fixtures. Every session imports this
module, so heavy imports wait for such an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ..errors import StartAgain
from .plan import PLAN
from .session import can_measure

if TYPE_CHECKING:
    from collections.abc import Generator


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


def _translated(
    found: pytest.ExceptionInfo[BaseException], item: pytest.Item
) -> pytest.ExceptionInfo[BaseException]:
    from .endings import failure_of, skipped_if_unknown

    error = skipped_if_unknown(found.value)
    if error is found.value:
        return found
    error = failure_of(item, error) or error
    return pytest.ExceptionInfo.from_exception(error.with_traceback(found.tb))
