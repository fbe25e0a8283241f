"""Runs a test once more, under a tracker, to list the tensors that hold memory."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ..api.attribution import raised
from ..errors import AttnMemError, StartAgain, stops
from ..measurement.measurement import Measurement
from ..measurement.window_stack import HolderSearch
from .another_run import another_run, reset_item

if TYPE_CHECKING:
    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend
    from ..measurement.qkv_inputs import Resized


def kept_by_unittest(item: pytest.Item) -> BaseException | None:
    """Returns the error of a ``unittest`` test, which pytest keeps until it makes the report."""
    kept = getattr(item, "_excinfo", None)
    return kept[-1].value if kept else None


def keep_for_unittest(item: pytest.Item, error: BaseException) -> None:
    """Replaces the error that a ``unittest`` test keeps by ``error``."""
    kept = item._excinfo  # type: ignore[attr-defined]
    kept[-1] = pytest.ExceptionInfo.from_exception(error)


class TracedRerun:
    """A second run, made on first use; its regions and checks do not raise.

    ``sizes`` replaces sizes of inputs: symbol → own size and other size. ``metric`` is the number
    that the run is made for. With ``search``, the run finds who holds the tensors that are left, or
    those of a peak. ``empty_caches`` runs it as a first run: caches are empty.
    """

    def __init__(
        self,
        item: pytest.Item,
        memory: AttnMem,
        failed: bool,
        sizes: Resized | None = None,
        metric: str = "peak",
        search: HolderSearch = None,
        *,
        empty_caches: bool = False,
    ) -> None:
        self._item = item
        self._memory = memory
        self._failed = failed
        self._sizes = sizes
        self._metric = metric
        self._search = search
        self._empty_caches = empty_caches or bool(sizes)
        self._whole: dict[str, Measurement] = {}
        self._regions: dict[str, Measurement] = {}
        self._error: BaseException | None = None

    def whole(self, primed: PrimedBackend) -> Measurement:
        """Returns the measurement of the test's body.

        Raises:
            AttnMemError: this run failed, but the first did not.
        """
        device = primed.backend.device
        if device not in self._whole:
            self._run(primed)
        if self._error is not None and not (self._failed and device in self._whole):
            raise AttnMemError(raised(self._error)) from self._error
        return self._whole[device]

    def region(self, name: str, primed: PrimedBackend) -> Measurement:
        """Returns the measurement of a region.

        Raises:
            AttnMemError: the second run did not reach the region.
        """
        if primed.backend.device not in self._whole:
            self._run(primed)
        if name not in self._regions:
            raise AttnMemError(f"the second run did not reach region {name!r}")
        return self._regions[name]

    def unpinned(self, first: Measurement, primed: PrimedBackend) -> Measurement:
        """Returns ``first`` with the retained bytes of this run, in which nothing is imported.

        Raises:
            AttnMemError: this run failed, but the first did not.
        """
        self._run(primed, trace=False)
        again = self.whole(primed).retained_bytes
        if again is None or first.retained_bytes is None:
            return first
        kept = max(again, first.retained_bytes - first.pinned_bytes)
        return replace(first, retained_bytes=kept, pinned_bytes=0)

    def untraced(self, primed: PrimedBackend) -> Measurement:
        """Returns the measurement of a run without a tracker, under which no code is compiled.

        Raises:
            AttnMemError: this run failed, but the first did not.
        """
        self._run(primed, trace=False)
        return self.whole(primed)

    def _run(self, primed: PrimedBackend, *, trace: bool = True) -> None:
        self._run_once(primed, trace=trace)
        if isinstance(self._error, StartAgain):
            self._error = None
            self._run_once(primed, trace=trace)

    def _run_once(self, primed: PrimedBackend, *, trace: bool) -> None:
        opened = None
        with (
            another_run(self._item, empty_caches=self._empty_caches),
            self._memory.dry_run(self._sizes) as regions,
        ):
            try:
                reset_item(self._item)
                with primed.window(self._metric, trace=trace, search=self._search) as opened:
                    self._item.runtest()
                self._error = kept_by_unittest(self._item)
            except stops():
                raise
            except BaseException as error:  # also sys.exit and the cancelling of a task
                self._error = error
            finally:
                self._regions |= regions
        if opened is not None and opened.measurement is not None:
            self._whole[primed.backend.device] = opened.measurement
