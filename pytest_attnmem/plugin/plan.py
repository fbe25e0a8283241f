"""The budgets of one test, known before its fixtures are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

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
    nodes: Mapping[str, Any] = field(default_factory=dict)
    """Metric → the test, class or module that has the marker."""


PLAN: pytest.StashKey[Plan] = pytest.StashKey()
