"""A test once more, under a tracker, to see who held memory."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import IsolatedAsyncioTestCase

import pytest

from .errors import AttnMemError
from .measure import window
from .measurement import Measurement

if TYPE_CHECKING:
    from .api import AttnMem
    from .backends import Backend


def rewind(item: pytest.Item) -> None:
    """Make a test that ran able to run again."""
    instance = getattr(item, "instance", None)
    postponed = getattr(item, "_explicit_tearDown", None)
    if postponed is not None:  # under --pdb, to when the debugger has been left
        item._explicit_tearDown = None  # type: ignore[attr-defined]
        vars(instance).pop("tearDown", None)
        postponed()
    if isinstance(instance, IsolatedAsyncioTestCase):  # makes one each time it runs
        instance._asyncioRunner = None  # type: ignore[attr-defined]


class SecondRun:
    """Made when first asked for, and once; regions and checks in it do not raise."""

    def __init__(self, item: pytest.Item, memory: AttnMem, failed: bool) -> None:
        self._item = item
        self._memory = memory
        self._failed = failed
        self._whole: dict[str, Measurement] = {}
        self._regions: dict[str, Measurement] = {}
        self._error: BaseException | None = None

    def whole(self, backend: Backend) -> Measurement:
        """The test's body.

        Raises:
            AttnMemError: this run failed where the first did not; the text says how.
        """
        if backend.device not in self._whole:
            self._run(backend)
        if self._error is not None and not (self._failed and backend.device in self._whole):
            kind = type(self._error).__name__
            raise AttnMemError(f"the second run raised {kind}: {self._error}") from self._error
        return self._whole[backend.device]

    def region(self, name: str, backend: Backend) -> Measurement:
        """A region of it.

        Raises:
            AttnMemError: the second run did not get there.
        """
        if backend.device not in self._whole:
            self._run(backend)
        if name not in self._regions:
            raise AttnMemError(f"the second run did not come to region {name!r}")
        return self._regions[name]

    def _run(self, backend: Backend) -> None:
        # unittest's tests do not raise, they leave what went wrong here for pytest to find
        kept = list(getattr(self._item, "_excinfo", None) or ())
        opened = None
        with self._memory.rehearsal() as regions:
            try:
                rewind(self._item)
                with window(backend, trace=True) as opened:
                    self._item.runtest()
            except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
                self._error = error
            finally:
                self._regions |= regions
                if hasattr(self._item, "_excinfo"):
                    self._item._excinfo = kept or None
        if opened is not None and opened.measurement is not None:
            self._whole[backend.device] = opened.measurement
