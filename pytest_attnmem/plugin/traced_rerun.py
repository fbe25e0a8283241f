"""Runs a test once more, under a tracker, to list the tensors that hold memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from types import MappingProxyType

import pytest

from ..api.attribution import raised
from ..backends.primed_backend import PrimedBackend
from ..errors import AttnMemError, StartAgain, stops
from ..measurement.measurement import Measurement
from ..measurement.protocol import SearchTime
from ..measurement.qkv_inputs import Resized
from ..measurement.window_stack import HolderSearch
from .another_run import another_run, begin_again, reset_item
from .fresh_fixtures import NotMadeAnew, given, made_anew, own_fixtures
from .plan import PLAN


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

    ``sizes`` replaces sizes of inputs: symbol → own size and other; ``arguments`` has the other
    sizes of arguments. ``metric`` is the number that the run is made for. With ``search``, the run
    finds who holds the tensors that are left, or those of a peak. ``empty_caches`` runs it as a
    first run: caches are empty.
    """

    def __init__(
        self,
        item: pytest.Item,
        failed: bool = False,
        sizes: Resized | None = None,
        metric: str = "peak",
        search: HolderSearch = None,
        *,
        arguments: Mapping[str, int] = MappingProxyType({}),
        empty_caches: bool = False,
    ) -> None:
        self._item = item
        self._memory = item.stash[PLAN].memory
        self._failed = failed
        self._sizes = sizes
        self._arguments = arguments
        self._metric = metric
        self._search = search
        self._empty_caches = empty_caches or bool(sizes)
        self._whole: dict[str, Measurement] = {}
        self._regions: dict[str, Measurement] = {}
        self._error: BaseException | None = None

    def measured(self, name: str, primed: PrimedBackend) -> Measurement:
        """Returns the measurement of a region, or with ``""`` of the test's body.

        Raises:
            AttnMemError: this run did not reach the region, or it failed and the first did not.
        """
        device = primed.backend.device
        if device not in self._whole:
            self._run(primed)
        if name:
            if name not in self._regions:
                raise AttnMemError(f"the second run did not reach region {name!r}")
            return self._regions[name]
        if self._error is not None and not (self._failed and device in self._whole):
            raise AttnMemError(raised(self._error)) from self._error
        return self._whole[device]

    def unpinned(self, first: Measurement, primed: PrimedBackend) -> Measurement:
        """Returns ``first`` with the retained bytes of this run, in which nothing is imported.

        Raises:
            AttnMemError: this run failed, but the first did not.
        """
        again = self.untraced(primed).retained_bytes
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
        return self.measured("", primed)

    def _run(self, primed: PrimedBackend, *, trace: bool = True) -> None:
        self._run_once(primed, trace=trace)
        if isinstance(self._error, StartAgain):
            self._error = None
            self._run_once(primed, trace=trace)

    @contextmanager
    def _own_fixtures(self) -> Iterator[None]:
        """Makes the test's own fixtures anew, as the first run found them, where that is possible.

        Raises:
            NotMadeAnew: a fixture cannot be made with other sizes.
        """
        with ExitStack() as stack:
            if self._sizes:
                stack.enter_context(given(self._item, self._arguments))
            else:
                with suppress(NotMadeAnew):
                    names = own_fixtures(self._item)
                    stack.enter_context(made_anew(self._item, names))
            begin_again(self._item)
            yield

    def _run_once(self, primed: PrimedBackend, *, trace: bool) -> None:
        opened = None
        with (
            self._memory.dry_run(self._sizes) as regions,
            another_run(self._item, empty_caches=self._empty_caches),
            self._own_fixtures(),  # the state is put back after they end
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


def left_by(
    item: pytest.Item,
    primed: PrimedBackend | None,
    region: str = "",
    *,
    empty_caches: bool = True,
) -> str:
    """Returns ``: ones at masks.py:8, kept by lru_cache of masks.mask``, of the largest tensor.

    Empty if a run under a tracker leaves none; it begins with ``empty_caches``, or as the last run
    left them.
    """
    if primed is None:
        return ""
    rerun = TracedRerun(item, metric="retained", search=SearchTime(), empty_caches=empty_caches)
    try:
        traced = rerun.measured(region, primed)
    except AttnMemError:
        return ""
    if not traced.left:
        return ""
    held = traced.left[0]
    kept = f", kept by {held.holder.removeprefix('held by ')}" if held.holder else ""
    return f": {held.op} at {held.where}{kept}"
