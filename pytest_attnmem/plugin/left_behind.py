"""Names what a run of a test leaves behind: the line that made it, and who keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import AttnMemError
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
    rerun = TracedRerun(item, item.stash[PLAN].memory, False, metric="retained", empty_caches=True)
    try:
        traced = rerun.region(region, primed) if region else rerun.whole(primed)
    except AttnMemError:
        return ""
    return f": {_described(traced.left[0])}" if traced.left else ""


def _described(held: Held) -> str:
    holder = getattr(held, "holder", "")
    return f"{held.op} at {held.where}" + (f", kept by {holder}" if holder else "")
