"""Names what a run of a test leaves behind: the line that made it, and who keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import AttnMemError
from ..measurement.protocol import SearchTime
from .plan import PLAN
from .traced_rerun import TracedRerun

if TYPE_CHECKING:
    import pytest

    from ..backends.primed_backend import PrimedBackend
    from ..measurement.held import Held


def left_by(item: pytest.Item, primed: PrimedBackend | None, region: str = "") -> str:
    """Returns ``: ones at masks.py:8, kept by lru_cache of masks.mask``, of the largest tensor.

    Empty if a run under a tracker leaves none.
    """
    if primed is None:
        return ""
    memory, search = item.stash[PLAN].memory, SearchTime()
    rerun = TracedRerun(item, memory, False, None, "retained", search, empty_caches=True)
    try:
        traced = rerun.region(region, primed) if region else rerun.whole(primed)
    except AttnMemError:
        return ""
    return f": {_described(traced.left[0])}" if traced.left else ""


def _described(held: Held) -> str:
    kept = f", kept by {held.holder}" if held.holder else ""
    return f"{held.op} at {held.where}{kept}"
