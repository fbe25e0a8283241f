"""The fixtures: ``attnmem`` and ``qkv``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .plan import PLAN

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..api.attnmem import AttnMem


@pytest.fixture
def attnmem(request: pytest.FixtureRequest) -> AttnMem:
    """Measure parts of a test: measure, region, check, compare, growth, derive, model."""
    item = request.node
    if PLAN not in item.stash:  # requested by name while the test runs
        from .planner import make_plan

        item.stash[PLAN] = make_plan(item, wanted=True)
    memory: AttnMem = item.stash[PLAN].memory
    return memory


@pytest.fixture
def qkv(attnmem: AttnMem) -> Callable[..., Any]:
    """Make inputs that no budget counts: qkv(B, H, N, d, *, Hkv, M, dv, dtype, …) -> (q, k, v)."""
    return attnmem.qkv
