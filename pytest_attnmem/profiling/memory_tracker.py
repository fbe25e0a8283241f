"""Memory of any backend: a tracker that can be read at any time, and the peak of one call."""

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


class OutOfMemory(AttnMemError, RuntimeError):
    """A measured program ran out of memory; a ``RuntimeError`` like the error of torch."""


class MemoryTracker:
    """A tracker of the bytes that the program allocates on a device after its creation.

    ``backend`` is a name such as ``cuda``, ``cpu`` or ``simulated:H100``; the default is the
    machine's device, which may be the CPU. While a tracker is open, automatic garbage collection is
    off and, with a simulated device, the program is simulated: close it with ``with`` or
    :meth:`close`. A tracker counts the allocations of the thread that created it.

    Raises:
        BackendUnavailable: the backend cannot measure here.
    """

    def __init__(self, backend: str | None = None) -> None:
        self._primed = open_primed(backend or "auto")
        self._stack = ExitStack()
        self._window: Window | None = None
        self._allocated = self._reserved = 0  # bytes at the start of the window
        self._end = weakref.finalize(self, self._stack.close)
        self._begin()

    def reset(self) -> None:
        """Releases unused segments, and sets the peak to the bytes allocated now.

        Raises:
            AttnMemError: the tracker is closed, or memory could not be measured.
        """
        self._primed.backend.empty_cache()
        seen = self._look()
        self._allocated += seen._allocated.level
        self._reserved += seen._reserved.level
        self._begin()

    def current_allocated(self) -> int:
        """Returns the bytes allocated now.

        Raises:
            AttnMemError: the tracker is closed, or memory could not be measured.
        """
        return self._allocated + self._look()._allocated.level

    def peak_allocated(self) -> int:
        """Returns the peak of the allocated bytes since :meth:`reset`.

        Raises:
            AttnMemError: the tracker is closed, or memory could not be measured.
        """
        return self._allocated + self._look()._allocated.peak

    def reserved(self) -> int | None:
        """Returns the bytes of segments; ``None`` on a backend without segments, such as the CPU.

        Raises:
            AttnMemError: the tracker is closed, or memory could not be measured.
        """
        seen = self._look()._reserved
        return self._reserved + seen.level if seen.known else None

    def close(self) -> None:
        """Ends the tracking; a second call does nothing."""
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
            # The new window opens inside the old one, so that no allocation is missed between them.
            opened = window(
                self._primed.backend, "reserved", workspace=self._primed.workspace_bytes
            )
            self._window = fresh.enter_context(opened)
            self._stack.close()
            self._stack.push(fresh.pop_all())

    def _look(self) -> Window:
        if self._window is None:
            raise AttnMemError("the tracker is closed; make another MemoryTracker()")
        with pause():  # a pause makes the backend report the events so far
            pass
        self._window.close(self._primed.backend)
        seen = self._window.measurement
        if seen and (seen.unmeasured is not None or seen.allocated_bytes is None):
            raise _unmeasured(seen)
        return self._window


def measure_memory(
    fn: Callable[..., Any], *args: Any, backend: str | None = None, **kwargs: Any
) -> tuple[int, Any]:
    """Calls ``fn(*args, **kwargs)`` and returns its peak of requested bytes, and its result.

    Tensors from before the call, such as inputs, are not counted; the result is. On a machine
    without a GPU the memory is that of the CPU.

    Raises:
        OutOfMemory: memory ran out during the call.
        AttnMemError: the call could not be measured; the text says why.
    """
    seen = measure(fn, *args, backend=backend, **kwargs)
    return peak_of(seen), seen.result


def peak_of(seen: Measurement) -> int:
    """Returns the peak of a measurement.

    Raises:
        OutOfMemory: memory ran out.
        AttnMemError: the measurement has no peak; the text says why.
    """
    if seen.out_of_memory is not None:
        raise OutOfMemory(f"out of memory on {seen.place}: {seen.out_of_memory}")
    if seen.unmeasured is not None or seen.peak_bytes is None:
        raise _unmeasured(seen)
    return seen.peak_bytes


def _unmeasured(seen: Measurement) -> AttnMemError:
    why = seen.unmeasured or seen.missing or "the device does not count it"
    return AttnMemError(f"memory is not measured on {seen.place}: {why}")
