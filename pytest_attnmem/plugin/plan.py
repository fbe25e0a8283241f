"""The plan of one test: its budgets, made before its fixtures."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

if TYPE_CHECKING:
    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend
    from ..budgets.budget import BudgetSpec
    from ..budgets.verdict import Verdict


class Plan(NamedTuple):  # a dataclass takes 1 ms of every session
    """The budgets of one test, each of another metric, and their backends."""

    budgets: tuple[tuple[BudgetSpec, PrimedBackend], ...]
    memory: AttnMem
    blocked: tuple[Verdict, ...] = ()
    """The verdicts on budgets of devices that are not here."""
    default: bool = False
    """True if the budget is from ``--attnmem-default`` or the baseline, not from a marker."""

    @property
    def warmup(self) -> int:
        """The number of runs before the measured one."""
        return max((spec.warmup for spec, _ in self.budgets), default=0)

    @property
    def is_promise(self) -> bool:
        """True if the test, or a region that it made, has a limit of its own."""
        own = not self.default and any(spec.is_promise for spec, _ in self.budgets)
        return own or any(region.limited for region in self.memory.regions)


PLAN: pytest.StashKey[Plan] = pytest.StashKey()
#: The number of markers of a test when it was planned.
MARKS = pytest.StashKey[int]()
