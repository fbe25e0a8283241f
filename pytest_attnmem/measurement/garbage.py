"""Garbage collection that is cheap enough to run before every test."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class _Frozen:
    """The objects of this process that this package froze."""

    present = False
    stale = False
    """True if objects of a running test are frozen too."""


_OURS = _Frozen()


def freeze_present() -> None:
    """Collects garbage, and freezes the objects that survive."""
    gc.collect()
    gc.freeze()
    _OURS.present = True


def unfreeze_all() -> None:
    """Unfreezes every object of the process."""
    gc.unfreeze()
    _OURS.present = _OURS.stale = False


def freeze_again() -> None:
    """Freezes all objects after a search that had to visit them, until the next test.

    The runs that follow would visit them at each collection.
    """
    gc.freeze()
    _OURS.present = _OURS.stale = True


def ours_frozen() -> bool:
    """Returns True if this package froze objects."""
    return _OURS.present


def anything_frozen() -> bool:
    """Returns True if objects are frozen; to count them is to visit each, which takes long."""
    return _OURS.present or gc.get_freeze_count() > 0


def age() -> None:
    """Has automatic collection leave alone what was made in the window, and is alive after it.

    All of it counts as young, and the first young collection would visit it, only to find it alive.
    """
    if not anything_frozen():
        gc.freeze()
        gc.unfreeze()  # into the oldest generation


class GarbageFreezer:
    """Collects before each measured test, and visits only objects made since the last collection.

    With torch imported, a full collection visits some 165 000 objects and takes about 70 ms. So
    the objects that survive one are frozen, and the next collection skips them. Objects are frozen
    before a test's own fixtures are made, so fixtures are never frozen while in use. A frozen
    object that later becomes cyclic garbage (a module's fixture after its teardown) would not be
    collected; so everything is unfrozen when the tests of another file begin, and at the end.
    """

    def __init__(self) -> None:
        # A program that froze objects before this one has its reasons; then we only collect.
        self._freezes = not anything_frozen()
        self._frozen_for: Path | None = None

    def freeze(self, path: Path) -> None:
        """Collects the garbage of earlier tests, before a test in ``path`` makes its fixtures."""
        if self._frozen_for != path:
            self.unfreeze()
        thawed = _OURS.stale
        if thawed:
            unfreeze_all()
        for name in ("last_type", "last_value", "last_traceback", "last_exc"):
            vars(sys).pop(name, None)  # pytest keeps the last failure here: it must not be frozen
        if self._freezes:
            self._frozen_for = path
        if self._freezes or thawed:
            freeze_present()
        else:
            gc.collect()

    def unfreeze(self, unless: Path | None = None) -> None:
        """Unfreezes all objects, unless the next test is in the file ``unless`` and so is this."""
        if self._frozen_for is not None and self._frozen_for != unless:
            unfreeze_all()
            self._frozen_for = None


@contextmanager
def garbage_frozen() -> Iterator[None]:
    """Freezes present objects for a body that opens many windows, each of which collects."""
    freezer = GarbageFreezer()
    freezer.freeze(Path())
    try:
        yield
    finally:
        freezer.unfreeze()
