"""A plugin of pytest that orders or chooses a session's tests, as the variable SHUFFLE says."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Shuffles the tests by ``order SEED``, keeps half of them or only one."""
    how, _, what = os.environ.get("SHUFFLE", "").partition(" ")
    kept = items[:]
    if how == "order":
        random.Random(what).shuffle(kept)
    elif how == "half":
        kept = [item for item in items if random.Random(what + item.nodeid).random() < 0.5]
    elif how == "only":
        kept = [item for item in items if item.nodeid == what]
    left_out = {item.nodeid for item in items} - {item.nodeid for item in kept}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in left_out])
    items[:] = kept
