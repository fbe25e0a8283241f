"""Garbage collection at a price that every test can pay."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class GarbageFreezer:
    """Collects before each measured test, and looks only at what is new since the last one.

    With torch imported a full collection visits some 165 000 objects and takes about 70 ms. So
    after one, what survived is frozen: the next visits what came since. Freezing happens before a
    test's own fixtures are made, so theirs are never frozen while in use. What is frozen and later
    becomes cyclic garbage (a module's fixtures, after their teardown) would not be found; so
    everything is thawed when the tests of another file begin, and at the end.
    """

    def __init__(self) -> None:
        # Somebody who froze before us has reasons; then we only collect.
        self._mine = gc.get_freeze_count() == 0
        self._frozen_for: Path | None = None

    def settle(self, path: Path) -> None:
        """Collect what earlier tests left, before a test in ``path`` makes its fixtures."""
        if self._frozen_for != path:
            self.thaw()
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)  # pytest keeps a failure's until now: not to be frozen
        gc.collect()
        if self._mine:
            gc.freeze()
            self._frozen_for = path

    def thaw(self, unless: Path | None = None) -> None:
        """Make everything collectable again, unless the next test is in this file too."""
        if self._frozen_for is not None and self._frozen_for != unless:
            gc.unfreeze()
            self._frozen_for = None


@contextmanager
def settled() -> Iterator[None]:
    """For a body that opens many windows: what is there by now is not visited before each."""
    collector = GarbageFreezer()
    collector.settle(Path())
    try:
        yield
    finally:
        collector.thaw()
