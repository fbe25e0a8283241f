"""How the body of a test ended, and why a budget of it is then not enforced."""

from __future__ import annotations

import pytest

from ..api.conclusion import Ending
from ..errors import CannotSimulate
from .row_writer import STOPS, stopped


def ending_of(cause: BaseException | None) -> Ending:
    """Returns how a body ended that raised ``cause``; None is a body that finished."""
    if cause is None:
        return Ending.FINISHED
    return Ending.SKIPPED if isinstance(cause, pytest.skip.Exception) else Ending.FAILED


def reason_of(cause: BaseException) -> str:
    """Returns why nothing is enforced in a body that raised ``cause``."""
    if isinstance(cause, (pytest.skip.Exception, pytest.xfail.Exception)):
        ended = "skipped" if isinstance(cause, pytest.skip.Exception) else "xfailed"
        return ": ".join(filter(None, (ended, " ".join(str(cause.msg or "").split()))))
    if isinstance(cause, CannotSimulate):
        return str(cause)
    if isinstance(cause, STOPS):
        return stopped(cause)
    return f"the test failed: {type(cause).__name__}"
