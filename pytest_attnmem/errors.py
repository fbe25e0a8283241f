"""The errors this package raises on purpose."""

from __future__ import annotations

import sys
from collections.abc import Iterator


class AttnMemError(Exception):
    """Base of every error this package raises on purpose; its text is one line for the user."""


class SizeError(AttnMemError, ValueError):
    """A text or number that is not a size in bytes."""


class FormulaError(AttnMemError, ValueError):
    """A formula that cannot be read, or has no value for the symbols it was given."""


class BudgetError(AttnMemError, ValueError):
    """A memory budget that is not a valid one."""


class SizesError(BudgetError):
    """Sizes that a program does not run at, or that do not tell its form.

    ``problem`` is the text without the way to give other sizes, which the command line has too.
    """

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}, as in sizes={{'N': [512, 1024, 1536, 2048]}}")
        self.problem = problem


class BackendUnavailable(AttnMemError):
    """A measuring backend that cannot run on this machine."""


class CannotSimulate(AttnMemError, RuntimeError):
    """A program asked a tensor without data for what only data can answer."""


class StartAgain(BaseException):
    """A measured body must run once more, from its beginning, as another kind of program.

    This is not an ``Exception``: a program that caught it and went on would be measured wrongly.
    """


class BudgetExceeded(AttnMemError, AssertionError):
    """The verdict on a measurement that broke its promise; an assertion, not a mistake."""

    __module__ = "pytest_attnmem"  # where users import it from, and what failures call it


def stops() -> tuple[type[BaseException], ...]:
    """Returns the errors that stop a session in the middle of a test, which then has no report."""
    pytest = sys.modules.get("pytest")  # where nothing imported it, nothing raises its error
    return (KeyboardInterrupt,) if pytest is None else (KeyboardInterrupt, pytest.exit.Exception)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields ``error``, then each error that it was raised from, or that it groups."""
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
