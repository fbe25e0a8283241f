"""A test once more, under a tracker, to see who held memory."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import (
    ExitStack,
    contextmanager,
    redirect_stderr,
    redirect_stdout,
)
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING
from unittest import IsolatedAsyncioTestCase

import pytest

from ..api.attribution import raised
from ..errors import AttnMemError, StartAgain, stops
from ..measurement.measurement import Measurement

if TYPE_CHECKING:
    from ..api.attnmem import AttnMem
    from ..backends.primed_backend import PrimedBackend
    from ..measurement.qkv_inputs import Resized


def reset_item(item: pytest.Item) -> None:
    """Make a test that ran able to run again."""
    instance = getattr(item, "instance", None)
    postponed = getattr(item, "_explicit_tearDown", None)
    if postponed is not None:  # under --pdb, to when the debugger has been left
        item._explicit_tearDown = None  # type: ignore[attr-defined]
        vars(instance).pop("tearDown", None)
        postponed()
    if isinstance(instance, IsolatedAsyncioTestCase):  # makes one each time it runs
        instance._asyncioRunner = None  # type: ignore[attr-defined]


def kept_by_unittest(item: pytest.Item) -> BaseException | None:
    """Returns the error of a ``unittest`` test, which pytest keeps until the report is made."""
    kept = getattr(item, "_excinfo", None)
    return kept[-1].value if kept else None


def keep_for_unittest(item: pytest.Item, error: BaseException) -> None:
    """Report ``error`` in the place of the error that a ``unittest`` test keeps."""
    kept = item._excinfo  # type: ignore[attr-defined]
    kept[-1] = pytest.ExceptionInfo.from_exception(error)


#: Fixtures from which a test reads what it printed; it will look for it again.
_READERS = ("capsys", "capfd", "capteesys")


class TracedRerun:
    """Made when first asked for, and once; regions and checks in it do not raise.

    ``sizes`` are other sizes for inputs: symbol → own and other.
    """

    def __init__(
        self, item: pytest.Item, memory: AttnMem, failed: bool, sizes: Resized | None = None
    ) -> None:
        self._item = item
        self._memory = memory
        self._failed = failed
        self._sizes = sizes
        self._whole: dict[str, Measurement] = {}
        self._regions: dict[str, Measurement] = {}
        self._error: BaseException | None = None

    def whole(self, instrument: PrimedBackend) -> Measurement:
        """The test's body.

        Raises:
            AttnMemError: this run failed where the first did not; the text says how.
        """
        device = instrument.backend.device
        if device not in self._whole:
            self._run(instrument)
        if self._error is not None and not (self._failed and device in self._whole):
            raise AttnMemError(raised(self._error)) from self._error
        return self._whole[device]

    def region(self, name: str, instrument: PrimedBackend) -> Measurement:
        """A region of it.

        Raises:
            AttnMemError: the second run did not get there.
        """
        if instrument.backend.device not in self._whole:
            self._run(instrument)
        if name not in self._regions:
            raise AttnMemError(f"the second run did not come to region {name!r}")
        return self._regions[name]

    def unpinned(self, seen: Measurement, instrument: PrimedBackend) -> Measurement:
        """Returns ``seen`` with the retained bytes of this run, which imports nothing any more.

        Raises:
            AttnMemError: this run failed where the first did not; the text says how.
        """
        self._run(instrument, trace=False)
        again = self.whole(instrument).retained_bytes
        if again is None or seen.retained_bytes is None:
            return seen
        kept = max(again, seen.retained_bytes - seen.pinned_bytes)
        return replace(seen, retained_bytes=kept, pinned_bytes=0)

    def _run(self, instrument: PrimedBackend, *, trace: bool = True) -> None:
        self._run_once(instrument, trace=trace)
        if isinstance(self._error, StartAgain):
            self._error = None
            self._run_once(instrument, trace=trace)

    def _run_once(self, instrument: PrimedBackend, *, trace: bool) -> None:
        opened = None
        with suppress_reporting(self._item), self._memory.dry_run(self._sizes) as regions:
            try:
                reset_item(self._item)
                with instrument.window(trace=trace) as opened:
                    self._item.runtest()
                self._error = kept_by_unittest(self._item)
            except stops():
                raise
            except BaseException as error:  # sys.exit and a task's cancelling are no verdict either
                self._error = error
            finally:
                self._regions |= regions
        if opened is not None and opened.measurement is not None:
            self._whole[instrument.backend.device] = opened.measurement


@contextmanager
def suppress_reporting(item: pytest.Item) -> Iterator[list[BaseException]]:
    """Keep what the test tells pytest, which it told before, out of the reports.

    Yields the errors of subtests, after which the test goes on.
    """
    swallowed: list[BaseException] = []
    properties = [*item.user_properties]
    with pytest.MonkeyPatch.context() as patch, _quiet(item):
        if hasattr(item, "addSubTest"):
            patch.setitem(vars(item), "addSubTest", lambda *_: None)
            patch.setitem(vars(item), "_excinfo", [])  # the failures that pytest will report
        if subtests := getattr(item, "funcargs", {}).get("subtests"):
            patch.setitem(vars(subtests), "test", partial(_subtest, swallowed))
        try:
            yield swallowed
        finally:
            item.user_properties[:] = properties


@contextmanager
def _quiet(item: pytest.Item) -> Iterator[None]:
    """Swallow warnings, and output unless the test itself looks at it."""
    nowhere = io.TextIOWrapper(io.BytesIO(), "utf-8", "replace")  # has a .buffer, as stdout does
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(record=True))
        if not any(name.startswith(_READERS) for name in getattr(item, "fixturenames", ())):
            stack.enter_context(redirect_stdout(nowhere))
            stack.enter_context(redirect_stderr(nowhere))
        yield


@contextmanager
def _subtest(
    swallowed: list[BaseException], msg: str | None = None, **kwargs: object
) -> Iterator[None]:
    """Take the place of pytest's: a failure is kept, and reported to nobody."""
    try:
        yield
    except (Exception, pytest.fail.Exception, pytest.skip.Exception) as error:
        swallowed.append(error)
