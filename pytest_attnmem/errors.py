"""The errors this package raises on purpose."""

from __future__ import annotations

import sys
from collections.abc import Iterator


class AttnMemError(Exception):
    """The base of every error that this package raises on purpose; its text is one line."""


class SizeError(AttnMemError, ValueError):
    """A text or number that is not a size in bytes."""


class FormulaError(AttnMemError, ValueError):
    """A formula that cannot be read, or that has no value for the given symbols."""


class BudgetError(AttnMemError, ValueError):
    """A memory budget that is not valid, or an argument of a function that is not."""


class SizesError(BudgetError):
    """Sizes at which a program does not run, or which do not determine its formula.

    ``problem`` is the text without the advice for Python; the command line adds its own.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}, as in sizes={{'N': [512, 1024, 1536, 2048]}}")
        self.problem = problem


class BackendUnavailable(AttnMemError):
    """A backend that cannot measure on this machine."""


class DeviceMissing(BackendUnavailable):
    """A backend of a machine that lacks torch, or the device; a session there excuses budgets."""


def _outcome() -> type[BaseException]:
    """Returns the base of pytest's outcomes, which its fixtures expect; without pytest, Python's.

    The plugin imports pytest before this module.
    """
    outcomes = sys.modules.get("_pytest.outcomes")
    return BaseException if outcomes is None else outcomes.OutcomeException


class ProgramRefused(_outcome()):  # type: ignore[misc]
    """A program that asked for what nobody can know without the device; its text is one line.

    It is not an ``Exception``: a program that catches its own errors, or a test that expects one,
    must not take a refusal for it.
    """


class CannotSimulate(ProgramRefused):
    """A program that cannot be simulated, as it read the values of a tensor without data."""


class UnknownValue(ProgramRefused):
    """A value that the program read, and that nobody can know without the device."""


class UnknownInWorker(UnknownValue, RuntimeError):
    """The same in a process that the program started: it hands on no other errors."""


class CannotCompute(AttnMemError, RuntimeError):
    """An operator that the CPU cannot compute in the device's place; no program gets it."""


class StartAgain(BaseException):
    """A request to run the measured body again from its beginning, as another kind of program.

    It is not an ``Exception``: a program that catches it and continues is measured wrongly.
    """


class BudgetExceeded(AttnMemError, AssertionError):
    """The verdict on a measurement that is over its budget; a failed assertion, not a mistake."""

    __module__ = "pytest_attnmem"  # users import it from there, and failures show that name


class NotEnforced(AttnMemError, AssertionError):
    """A budget that could have been enforced and was not; the second line says what to do."""

    __module__ = "pytest_attnmem"


def stops() -> tuple[type[BaseException], ...]:
    """Returns the errors that end a session in the middle of a test, which then has no report."""
    pytest = sys.modules.get("pytest")  # without the import, nothing can raise its error
    return (KeyboardInterrupt,) if pytest is None else (KeyboardInterrupt, pytest.exit.Exception)


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's text, for a reason; its kind if it has no text."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def again(error: BaseException) -> BaseException:
    """Returns an equal error to raise, without a traceback.

    A function that raises an error which it keeps in a variable makes a cycle of them and the
    frames of its callers: a program's tensors would live on until garbage is collected.
    """
    return type(error)(*error.args)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields ``error``, then its causes and contexts, and the members of exception groups."""
    waiting, seen = [error], set[int]()
    while waiting:
        found = waiting.pop(0)
        if found is not None and id(found) not in seen:
            seen.add(id(found))
            yield found
            waiting += [found.__cause__, found.__context__, *_grouped(found)]


def _grouped(error: BaseException) -> Iterator[BaseException]:
    """Yields the members of an exception group, on Python 3.10 as well."""
    members = getattr(error, "exceptions", ())
    if isinstance(members, tuple):
        yield from (member for member in members if isinstance(member, BaseException))
