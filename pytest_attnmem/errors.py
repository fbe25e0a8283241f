"""The errors this package raises on purpose."""


class AttnMemError(Exception):
    """Base of every error this package raises on purpose; its text is one line for the user."""


class SizeError(AttnMemError, ValueError):
    """A text or number that is not a size in bytes."""


class FormulaError(AttnMemError, ValueError):
    """A formula that cannot be read, or has no value for the symbols it was given."""


class BudgetError(AttnMemError, ValueError):
    """A memory budget that is not a valid one."""


class BackendUnavailable(AttnMemError):
    """A measuring backend that cannot run on this machine."""


class CannotSimulate(AttnMemError, RuntimeError):
    """A program asked a tensor without data for what only data can answer."""


class StartAgain(BaseException):
    """A measured body must run once more, from its beginning, as another kind of program.

    No ``Exception``: a program that goes on after it would be measured wrongly.
    """


class BudgetExceeded(AttnMemError, AssertionError):
    """The verdict on a measurement that broke its promise; an assertion, not a mistake."""

    __module__ = "pytest_attnmem"  # where users import it from, and what failures call it
