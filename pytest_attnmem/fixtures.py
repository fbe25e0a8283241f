"""The fixtures: ``attnmem`` and ``qkv``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from .api import AttnMem
    from .plan import Plan
    from .session import Session

PLAN: pytest.StashKey[Plan] = pytest.StashKey()
SESSION: pytest.StashKey[Session] = pytest.StashKey()


@pytest.fixture
def attnmem(request: pytest.FixtureRequest) -> AttnMem:
    """Measure parts of a test: measure, region, check and compare."""
    item = request.node
    if PLAN not in item.stash:  # asked for by name, while the test was running
        from .plan import make_plan
        from .rows import Rows

        plan = make_plan(item, item.config.stash[SESSION], Rows(item), wanted=True)
        item.stash[PLAN] = plan
    memory: AttnMem = item.stash[PLAN].memory
    return memory


@pytest.fixture
def qkv(attnmem: AttnMem) -> Callable[..., Any]:
    """Make inputs that no budget counts: qkv(B, H, N, d, *, Hkv, M, dv, dtype, …) -> (q, k, v)."""
    return attnmem.qkv
