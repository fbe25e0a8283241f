"""The errors this package raises on purpose."""


class AttnMemError(Exception):
    """Base of every error this package raises on purpose; its text is one line for the user."""


class SizeError(AttnMemError, ValueError):
    """A text or number that is not a size in bytes."""


class FormulaError(AttnMemError, ValueError):
    """A formula that cannot be read, or has no value for the symbols it was given."""


class BudgetError(AttnMemError, ValueError):
    """A memory budget that is not a valid one."""


class SizesError(BudgetError):
    """Sizes at which a program cannot be looked at; each place says how it is given others."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"{problem}, as in sizes={{'N': [512, 1024, 1536, 2048]}}")
        self.problem = problem


class BackendUnavailable(AttnMemError):
    """A measuring backend that cannot run on this machine."""


class CannotSimulate(AttnMemError, RuntimeError):
    """A program asked a tensor without data for what only data can answer."""


class BudgetExceeded(AttnMemError, AssertionError):
    """The verdict on a measurement that broke its promise; an assertion, not a mistake."""

    __module__ = "pytest_attnmem"  # where users import it from, and what failures call it
