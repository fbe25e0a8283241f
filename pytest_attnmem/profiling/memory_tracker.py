"""Watches memory on any backend: a tracker to ask at any time, and the peak of one call."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from ..api.functions import measure
from ..backends.primed_backend import open_primed
from ..errors import AttnMemError
from ..measurement.measurement import Measurement
from ..measurement.window import Window
from ..measurement.window_stack import pause, window

__tracebackhide__ = True  # pytest shows the line that called, and none of these


class OutOfMemory(AttnMemError, RuntimeError):
    """What was measured ran out of memory; a ``RuntimeError``, as torch's own is."""


class MemoryTracker:
    """Bytes in use on a device since the tracker was made, those of before not counted.

    ``backend`` is the name of one: ``cuda``, ``cpu``, ``simulated:H100``; by default the device
    that is there, the CPU too. While a tracker is open, the thread's automatic garbage collection
    is off, and on a simulated device everything on it is simulated: end it with ``with`` or
    :meth:`close`. What it reads is of the thread that made it.

    Raises:
        BackendUnavailable: the backend cannot measure here.
    """

    def __init__(self, backend: str | None = None) -> None:
        self._instrument = open_primed(backend or "auto")
        self._stack = ExitStack()
        self._window: Window | None = None
        self._allocated = self._reserved = 0  # when the window began
        self._end = weakref.finalize(self, self._stack.close)
        self._begin()

    def reset(self) -> None:
        """Give unused segments back, and let the peak be what is allocated now.

        Raises:
            AttnMemError: the tracker is closed, or cannot see.
        """
        self._instrument.backend.empty_cache()
        seen = self._look()
        self._allocated += seen._allocated.level
        self._reserved += seen._reserved.level
        self._begin()

    def current_allocated(self) -> int:
        """Bytes allocated now.

        Raises:
            AttnMemError: the tracker is closed, or cannot see.
        """
        return self._allocated + self._look()._allocated.level

    def peak_allocated(self) -> int:
        """The most bytes that were allocated at a time since :meth:`reset`.

        Raises:
            AttnMemError: the tracker is closed, or cannot see.
        """
        return self._allocated + self._look()._allocated.peak

    def reserved(self) -> int | None:
        """Bytes of segments taken from the device; ``None`` where there are none, as on the CPU.

        Raises:
            AttnMemError: the tracker is closed, or cannot see.
        """
        seen = self._look()._reserved
        return self._reserved + seen.level if seen.known else None

    def close(self) -> None:
        """Watch no longer; a second time does nothing."""
        self._end()
        self._window = None

    def __enter__(self) -> MemoryTracker:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _begin(self) -> None:
        with ExitStack() as fresh:
            # Inside the old one, so that nothing is missed between them.
            opened = window(
                self._instrument.backend, "reserved", workspace=self._instrument.workspace_bytes
            )
            self._window = fresh.enter_context(opened)
            self._stack.close()
            self._stack.push(fresh.pop_all())

    def _look(self) -> Window:
        if self._window is None:
            raise AttnMemError("the tracker is closed; make another MemoryTracker()")
        with pause():  # what was seen so far is told when the watching is interrupted
            pass
        self._window.close(self._instrument.backend)
        seen = self._window.measurement
        if seen and (seen.unmeasured is not None or seen.allocated_bytes is None):
            raise _unmeasured(seen)
        return self._window


def measure_memory(
    fn: Callable[..., Any], *args: Any, backend: str | None = None, **kwargs: Any
) -> tuple[int, Any]:
    """Call ``fn(*args, **kwargs)`` → the peak of requested bytes above the start, and its result.

    What is there before, such as inputs, is not counted; the result is. On a machine without a GPU
    it is the CPU's memory, and never 0 for want of one.

    Raises:
        OutOfMemory: memory ran out in it.
        AttnMemError: the backend did not or cannot measure; the text says why.
    """
    seen = measure(fn, *args, backend=backend, **kwargs)
    return peak_of(seen), seen.result


def peak_of(seen: Measurement) -> int:
    """The peak of a measurement.

    Raises:
        OutOfMemory: memory ran out.
        AttnMemError: there is none; the text says why.
    """
    if seen.out_of_memory is not None:
        raise OutOfMemory(f"out of memory on {seen.place}: {seen.out_of_memory}")
    if seen.unmeasured is not None or seen.peak_bytes is None:
        raise _unmeasured(seen)
    return seen.peak_bytes


def _unmeasured(seen: Measurement) -> AttnMemError:
    why = seen.unmeasured or seen.missing or "the device does not count it"
    return AttnMemError(f"memory is not measured on {seen.place}: {why}")
