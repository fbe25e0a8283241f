"""The budgets of one test, known before its fixtures are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend
    from ..budgets.budget import BudgetSpec


@dataclass(frozen=True, slots=True)
class Plan:
    """The budgets of one test, of different metrics, and what they are measured with."""

    budgets: tuple[tuple[BudgetSpec, PrimedBackend], ...]
    memory: AttnMem
    blocked: str = ""
    """Why nothing can be measured here, though nobody asked for the impossible."""
    default: bool = False
    """The budget is the session's, not the test's own."""


PLAN: pytest.StashKey[Plan] = pytest.StashKey()
