"""The one measuring protocol: how a window is opened, cut, and read, on any backend.

A window is a run of stretches that a gauge has seen. Windows nest, and inputs are made in a pause;
both end one stretch and begin another, so that a counter with a single peak serves all of them.
"""

from __future__ import annotations

import gc
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from ..errors import causes
from .protocol import Backend, Recorder, simulation_context
from .timeline import MOST
from .window import Window


class _Running(threading.local):
    """What is being measured on this thread; allocator events are per thread too."""

    def __init__(self) -> None:
        self.meters: list[WindowStack] = []


_RUNNING = _Running()


class WindowStack:
    """The windows that are open on one backend, innermost last, and the gauge they share."""

    def __init__(self, backend: Backend, gauge: Recorder, traced: bool) -> None:
        self.backend = backend
        self.gauge = gauge
        self.traced = traced
        self.collecting = gc.isenabled()
        self.world = ExitStack()
        """Where programs run that the backend measures."""
        self._windows: list[Window] = []
        self._inputs: list[Any] = []

    def open(self, window: Window, metric: str) -> None:
        """Begin a window inside those that are open."""
        if self._windows:
            self._cut()
        if metric == "reserved":
            # Segments left by what came before would hide that this window needs them.
            self.backend.empty_cache()
        self._windows.append(window)
        self.gauge.start()

    def close(self, window: Window) -> bool:
        """End ``window``, unless that was done; whether none is open any more."""
        if window in self._windows:
            self._cut()
            self._windows.remove(window)
            window.close(self.backend, self._pinned(window))
            if self._windows:
                self.gauge.start()
            else:
                self._inputs.clear()
        return not self._windows

    def _pinned(self, window: Window) -> int:
        """Returns the most bytes that an import of torch may pin: its frames are cyclic garbage.

        The outermost window has ended, so a collection tells; an inner window assumes all bytes.
        """
        if window.level <= 0 or not window.imported:
            return 0
        if self._windows:
            return window.level
        self.gauge.start()
        gc.collect()
        freed = self.gauge.stop().requested
        return max(-freed.final, 0) if freed is not None else window.level

    @property
    def windows(self) -> list[Window]:
        """Those that are open."""
        return [*self._windows]

    @contextmanager
    def pause(self) -> Iterator[Callable[[Any], None]]:
        """Make inputs unseen: yields a function that takes the storages to leave out of account.

        An input counts neither when it is made nor when it dies. So its storage is kept until a
        moment when nobody looks: the next pause after the test let go of it, or the end.
        """
        self._cut()
        try:
            self._inputs = [storage for storage in self._inputs if _in_use(storage)]
            yield self._inputs.append
        finally:
            self.gauge.start()

    def _cut(self) -> None:
        stretch = self.gauge.stop()
        for window in self._windows:
            window.add(stretch)


@contextmanager
def window(
    backend: Backend,
    metric: str = "peak",
    *,
    workspace: int = 0,
    trace: bool = False,
    evidence: bool = False,
    most: int = MOST,
) -> Iterator[Window]:
    """Measure the body of the ``with``; inside another window on the same device, a part of it.

    The outermost window collects garbage before it begins and keeps automatic collection off
    until it ends, so that peaks repeat. If memory runs out, ``Window.out_of_memory`` is set and
    the error goes on, its frames cleared of the tensors they pinned. With ``evidence``, the
    measurement has a timeline where the gauge can tell of births and deaths; the ``most`` largest
    lives are told each on its own.
    """
    meter = _meter(backend, trace)
    window = Window(workspace, evidence, most, meter.traced)
    try:
        meter.open(window, metric)
        yield window
    except GeneratorExit:  # left open until now, when the interpreter may be ending
        raise
    except BaseException as error:
        window.out_of_memory = out_of_memory(backend, error)
        if window.out_of_memory is not None:
            traceback.clear_frames(error.__traceback__)
        raise
    finally:
        if meter.close(window):
            _end(meter)


@contextmanager
def nothing_left_open() -> Iterator[None]:
    """End every window that the body begins and does not end, as a generator does that is left."""
    before = [window for meter in _RUNNING.meters for window in meter.windows]
    try:
        yield
    finally:
        for meter in [*_RUNNING.meters]:
            left = [window for window in meter.windows if window not in before]
            closed = [meter.close(window) for window in left]
            if any(closed):
                _end(meter)


def out_of_memory(backend: Backend, error: BaseException | None) -> str | None:
    """What was asked for, if memory ran out in ``error`` or in what it was raised from."""
    if isinstance(error, GeneratorExit):  # Python may be ending, without torch
        return None
    told = (backend.out_of_memory(found) for found in causes(error))
    return next((asked for asked in told if asked is not None), None)


def is_measured(backend: Backend) -> bool:
    """Returns whether a window is open on the backend's device."""
    return any(_is_of(meter, backend) for meter in _RUNNING.meters)


def _is_of(meter: WindowStack, backend: Backend) -> bool:
    return (meter.backend.name, meter.backend.device) == (backend.name, backend.device)


def _meter(backend: Backend, trace: bool) -> WindowStack:
    """The one that runs on the backend's device, or a new one: garbage collected, and kept."""
    for meter in _RUNNING.meters:
        if _is_of(meter, backend):
            return meter
    meter = WindowStack(backend, backend.tracer() if trace else backend.gauge(), trace)
    gc.collect()
    gc.disable()
    meter.world.enter_context(simulation_context(backend))
    _RUNNING.meters.append(meter)
    return meter


def _end(meter: WindowStack) -> None:
    if meter in _RUNNING.meters:
        _RUNNING.meters.remove(meter)
        meter.world.close()
        if meter.collecting:
            gc.enable()


@contextmanager
def pause() -> Iterator[Callable[[Any], None]]:
    """Pause every measurement on this thread; yields what takes the storages to leave out."""
    with ExitStack() as stack:
        keepers = [stack.enter_context(meter.pause()) for meter in _RUNNING.meters]

        def keep(storage: Any) -> None:
            for keeper in keepers:
                keeper(storage)

        yield keep


@contextmanager
def unseen() -> Iterator[None]:
    """Hide the body from every measurement on this thread; a window in it measures on its own."""
    with pause():
        hidden, _RUNNING.meters = _RUNNING.meters, []
        try:
            yield
        finally:
            _RUNNING.meters = hidden


def _in_use(storage: Any) -> bool:
    """Whether anything but our own reference keeps ``storage`` alive."""
    import torch

    return torch._C._storage_Use_Count(storage._cdata) > 1
