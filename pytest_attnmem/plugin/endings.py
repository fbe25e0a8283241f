"""The ending of a test's body, and the reason why its budgets are then not enforced."""

from __future__ import annotations

import re
from typing import Final

import pytest

from ..api.conclusion import Ending
from ..errors import (
    AttnMemError,
    BudgetExceeded,
    CannotSimulate,
    MixedDevices,
    UnknownValue,
    causes,
)
from ..torch_releases import NO_RULES
from .null_errors import missing_on_null
from .row_writer import STOPS, stopped

#: What is left of an error that a script of PyTorch's JIT or another process raised: its text.
_TOLD: Final = re.compile(
    r"^(?:RuntimeError: |pytest_attnmem\.errors\.)(?:UnknownValue|CannotSimulate): (.+)",
    re.MULTILINE,
)


class NotKnown(pytest.skip.Exception):  # type: ignore[name-defined, misc]
    """The skip of a test that asked for what nobody can know here; the test keeps its rows."""

    __module__ = "builtins"  # as of pytest's own, which a subtest prints

    def __init__(self, reason: str) -> None:
        super().__init__(reason, _use_item_location=True)


def skipped_if_unknown(error: BaseException) -> BaseException:
    """Returns the skip of a body that asked for what nobody can know here, or ``error``.

    That is a number that no rule gives on this torch, a value that nobody computed, code that
    cannot be simulated, or a library that the null device lacks.
    """
    if missing := missing_on_null(error):
        return NotKnown(missing)
    refused = isinstance(error, AttnMemError) and not isinstance(error, BudgetExceeded)
    if refused and NO_RULES in str(error):
        return NotKnown(str(error))
    for cause in causes(error):
        unknown = isinstance(cause, (CannotSimulate, UnknownValue))
        if unknown and not isinstance(cause, MixedDevices):
            return NotKnown(str(cause))
        by_torch = isinstance(cause, RuntimeError) or type(cause).__module__.startswith("torch.")
        if by_torch and (told := _TOLD.search(str(cause))):
            return NotKnown(told[1])
    return error


def ending_of(cause: BaseException | None) -> Ending:
    """Returns the ending of a body that raised ``cause``; None if the body finished."""
    if cause is None:
        return Ending.FINISHED
    return Ending.SKIPPED if isinstance(cause, pytest.skip.Exception) else Ending.FAILED


def reason_of(cause: BaseException) -> str:
    """Returns why budgets are not enforced if the body raised ``cause``."""
    known = skipped_if_unknown(cause)  # a strict session, or unittest, has no skip in its place
    if isinstance(known, NotKnown):
        return str(known.msg)
    if isinstance(cause, (pytest.skip.Exception, pytest.xfail.Exception)):
        ended = "skipped" if isinstance(cause, pytest.skip.Exception) else "xfailed"
        return ": ".join(filter(None, (ended, " ".join(str(cause.msg or "").split()))))
    if isinstance(cause, CannotSimulate):
        return str(cause)
    if isinstance(cause, STOPS):
        return stopped(cause)
    return f"the test failed: {type(cause).__name__}"
