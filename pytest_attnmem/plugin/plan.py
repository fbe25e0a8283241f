"""The plan of one test: its budgets, made before its fixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend
    from ..budgets.budget import BudgetSpec


class Plan(NamedTuple):  # a dataclass takes 1 ms of every session
    """The budgets of one test, each of another metric, and their backends."""

    budgets: tuple[tuple[BudgetSpec, PrimedBackend], ...]
    memory: AttnMem
    blocked: str = ""
    """The reason why nothing can be measured here, if no backend was named."""
    default: bool = False
    """True if the budget is from ``--attnmem-default`` or the baseline, not from a marker."""

    @property
    def warmup(self) -> int:
        """The number of runs before the measured one."""
        return max((spec.warmup for spec, _ in self.budgets), default=0)


PLAN: pytest.StashKey[Plan] = pytest.StashKey()
#: The number of markers of a test when it was planned.
MARKS = pytest.StashKey[int]()
