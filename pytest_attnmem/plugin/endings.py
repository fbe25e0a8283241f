"""The ending of a test's body, and the reason why its budgets are then not enforced."""

from __future__ import annotations

import re
from contextlib import suppress
from types import MappingProxyType
from typing import Final

import pytest

from ..api.conclusion import Ending, Strictness
from ..baselines.environment_key import depends_on
from ..budgets.budget import Obstacle
from ..errors import (
    AttnMemError,
    BackendUnavailable,
    BudgetExceeded,
    DeviceMissing,
    NotEnforced,
    ProgramRefused,
    causes,
)
from ..nulldevice.counts import last_unknown_call
from ..nulldevice.launch import present
from ..nulldevice.refusals import refusal, remedy
from ..torch_releases import NO_RULES
from .plan import PLAN, Plan, is_measured, own_nodeid
from .row_writer import STOPS, stopped
from .session import SESSION, Session

#: What is left of an error that a script of PyTorch's JIT or another process raised: its text.
_TOLD: Final = re.compile(
    r"^(?:RuntimeError: |pytest_attnmem\.errors\.)"
    r"(?:UnknownValue|UnknownInWorker|CannotSimulate): (.+)",
    re.MULTILINE,
)


class NotKnown(pytest.skip.Exception):  # type: ignore[name-defined, misc]
    """The skip of a test that asked for what nobody can know here; the test keeps its rows."""

    __module__ = "builtins"  # as of pytest's own, which a subtest prints

    def __init__(self, reason: str, obstacle: Obstacle = Obstacle.VALUE_NOT_KNOWN) -> None:
        super().__init__(reason, _use_item_location=True)
        self.obstacle = obstacle

    @property
    def failure(self) -> Failed:
        """The failure that a test with a promise to keep has in place of the skip."""
        return Failed(f"not enforced: {self.msg}\n  {self.obstacle.remedy}")


class Failed(NotEnforced, pytest.fail.Exception):  # type: ignore[name-defined, misc]
    """A test with a budget that was not enforced: a failure without a traceback.

    It has the name of pytest's own failures, because its text says the rest.
    """

    __module__ = "builtins"

    def __init__(self, text: str) -> None:
        pytest.fail.Exception.__init__(self, text, pytrace=False)


def skipped_if_unknown(error: BaseException) -> BaseException:
    """Returns the skip of a body that asked for what nobody can know here, or ``error``.

    That is a number that no rule gives on this torch, a value that nobody computed, code that
    cannot be simulated, a library that the null device lacks, or a device that is not here.
    """
    if isinstance(error, (NotKnown, NotEnforced)):
        return error
    if isinstance(error, DeviceMissing):
        return NotKnown(str(error), Obstacle.NO_DEVICE)
    if missing := missing_on_null(error):
        return NotKnown(missing)
    refused = isinstance(error, AttnMemError) and not isinstance(error, BudgetExceeded)
    if refused and NO_RULES in str(error):
        return NotKnown(str(error))
    for cause in causes(error):
        if isinstance(cause, ProgramRefused):
            return NotKnown(str(cause))
        by_torch = isinstance(cause, RuntimeError) or type(cause).__module__.startswith("torch.")
        if by_torch and (told := _TOLD.search(str(cause))):
            return NotKnown(told[1])
    return error


def failure_of(item: pytest.Item, cause: BaseException | None) -> Failed | None:
    """Returns the failure of a test that asked for what is not known here; None for a skip."""
    if not isinstance(cause, NotKnown) or not is_measured(item, item.config.stash[SESSION]):
        return None
    session = item.config.stash[SESSION]
    plan = item.stash.get(PLAN, None)
    promised = plan is not None and (plan.is_promise or _has_entry(item, plan, session))
    strictness = Strictness(session.settings.strict)
    return cause.failure if strictness.fails(cause.obstacle, promised) else None


def _has_entry(item: pytest.Item, plan: Plan, session: Session) -> bool:
    """Returns True if the baseline has an entry for the test, or a part of it, on its device."""
    used = [primed.backend for _, primed in plan.budgets]
    with suppress(BackendUnavailable):
        used = used or [session.primed(session.settings.backend).backend]
    places = {depends_on(backend.name, backend.device) for backend in used}
    entries = session.baseline.entries if session.baseline is not None else ()
    name = own_nodeid(item)
    return any(key.test == name and key.environment in places for key in entries)


def ending_of(cause: BaseException | None) -> Ending:
    """Returns the ending of a body that raised ``cause``; None if the body finished."""
    if cause is None:
        return Ending.FINISHED
    return Ending.SKIPPED if isinstance(cause, pytest.skip.Exception) else Ending.FAILED


def unfinished(cause: BaseException) -> tuple[str, Obstacle]:
    """Returns why budgets are not enforced if the body raised ``cause``."""
    known = skipped_if_unknown(cause)
    if isinstance(known, NotKnown):
        return str(known.msg), known.obstacle
    return _reason_of(cause), Obstacle.NOT_FINISHED


def _reason_of(cause: BaseException) -> str:
    if isinstance(cause, (pytest.skip.Exception, pytest.xfail.Exception)):
        ended = "skipped" if isinstance(cause, pytest.skip.Exception) else "xfailed"
        return ": ".join(filter(None, (ended, " ".join(str(cause.msg or "").split()))))
    if isinstance(cause, ProgramRefused):
        return str(cause)
    if isinstance(cause, STOPS):
        return stopped(cause)
    return f"the test failed: {type(cause).__name__}"


#: What is missing, by the beginning of PyTorch's error, where the last call does not say it. Those
#: of cuDNN and of NVRTC are plain RuntimeErrors: torch/csrc/Exceptions.h has no type for them.
_MISSING: Final = MappingProxyType(
    {
        # A library of stubs has its own name in the place of an error's.
        "cuDNN error: libcudnn": "cuDNN is not installed",
        "CUDA NVRTC error: libnvrtc": "NVRTC is not installed",
        "cuDNN error: CUDNN_STATUS_NOT_INITIALIZED": "cuDNN cannot plan this without a GPU: it must"
        " be 9.8 or newer, and TORCH_CUDNN_V8_API_DISABLED must not be set",
        "CUDA error: operation not supported": "no CUDA graph can be captured",
        "CUDA error: <cudaError_t.cudaErrorNotSupported": "this is not known",  # of cuda.bindings
    }
)


def missing_on_null(error: BaseException) -> str:
    """Returns what the null device lacks for the program that raised ``error``; else ""."""
    running = present()
    if running is None:
        return ""
    for cause in causes(error):  # an import's, or a compiler's, of torch._inductor.exc
        absent = isinstance(cause, ModuleNotFoundError) and cause.name == "triton"
        if absent or type(cause).__name__ == "TritonMissing":
            return f"on null:{running} Triton is not installed: {remedy('triton')}"
    for beginning, missing in _MISSING.items():
        if str(error).startswith(beginning):
            return f"on null:{running} {refusal(last_unknown_call()) or missing}"
    return ""
