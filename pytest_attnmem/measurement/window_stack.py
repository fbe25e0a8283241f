"""The one measuring protocol: windows are opened, paused and read alike on any backend.

A window is a series of intervals of a recorder. Windows nest, and inputs are made in a pause; both
end one interval and begin another, so that a counter with a single peak serves all windows.
"""

from __future__ import annotations

import gc
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from ..errors import causes
from .garbage import age
from .peak_watch import PeakWatch
from .protocol import BackendProtocol, Recorder, SearchTime, simulation_context
from .timeline import MOST
from .window import Window

#: The search for who holds the tensors that are left, or those of a peak.
HolderSearch = SearchTime | PeakWatch | None


class _Running(threading.local):
    """The measurements in progress on this thread; allocator events are per thread too."""

    def __init__(self) -> None:
        self.stacks: list[WindowStack] = []


_RUNNING = _Running()


class WindowStack:
    """The windows that are open on one backend, innermost last, and the recorder they share."""

    def __init__(
        self, backend: BackendProtocol, recorder: Recorder, traced: bool, search: HolderSearch
    ) -> None:
        self.backend = backend
        self.recorder = recorder
        self.traced = traced
        self._search = search
        if isinstance(search, PeakWatch) and hasattr(recorder, "watch"):
            recorder.watch(search)
        self.collecting = gc.isenabled()
        self.context = ExitStack()
        """The context that programs run in while the backend measures them."""
        self.told = False
        """True once a program may know a number: a window inside has ended."""
        self._windows: list[Window] = []
        self._inputs: list[Any] = []

    def open(self, window: Window, metric: str) -> None:
        """Begins a window inside the open windows."""
        if self._windows:
            self._cut()
        if not self._windows or metric in ("allocated", "reserved"):
            # Segments that an earlier program left would hide that this window needs them, and
            # change which blocks are split: a block whose rest is small is given whole. In an open
            # window they are those of the program.
            self.backend.empty_cache()
        self._windows.append(window)
        self.recorder.start()

    def close(self, window: Window) -> None:
        """Ends ``window``, unless it has ended; with the last one, what its measuring changed."""
        if window not in self._windows:
            self.end()
            return
        try:
            try:
                self._cut()
            finally:
                self._windows.remove(window)
            find = getattr(self.recorder, "holders", None)
            if isinstance(self._search, SearchTime) and find is not None:
                collect = not self._windows
                window.find_holders(partial(find, seconds=self._search, collect=collect))
            window.close(self.backend, self._pinned(window))
            if self._windows:
                self.recorder.start()
        finally:  # also if the backend fails, or later windows would measure with its leftovers
            self.end()

    def end(self) -> None:
        """Ends the measuring on this device, unless windows are open."""
        if not self._windows and self in _RUNNING.stacks:
            self._inputs.clear()
            _RUNNING.stacks.remove(self)
            try:
                self.context.close()
            finally:
                if self.collecting:
                    age()
                    gc.enable()

    def _pinned(self, window: Window) -> int:
        """Returns the most bytes that an import of torch may pin: its frames are cyclic garbage.

        After the outermost window a collection measures them; an inner window assumes all bytes.
        """
        if window.level <= 0 or not window.imported:
            return 0
        starts_again: str = getattr(self.backend, "starts_again", "")
        if self._windows or starts_again:  # the next start empties the device
            return window.level
        self.recorder.start()
        gc.collect()
        freed = self.recorder.stop().requested
        return max(-freed.final, 0) if freed is not None else window.level

    @property
    def windows(self) -> list[Window]:
        """Returns the open windows."""
        return [*self._windows]

    @property
    def has_inputs(self) -> bool:
        """Returns True if storages of inputs are kept alive."""
        return bool(self._inputs)

    @contextmanager
    def pause(self) -> Iterator[Callable[[Any], None]]:
        """Yields a function that takes the storages of inputs, which are not counted.

        An input counts neither when it is allocated nor when it is freed. So its storage is kept
        alive until a moment that is not measured: the first pause after the test dropped it, or
        the end.
        """
        self._cut()
        try:
            self._inputs = [storage for storage in self._inputs if _in_use(storage)]
            yield self._inputs.append
        finally:
            self.recorder.start()

    def _cut(self) -> None:
        interval = self.recorder.stop()
        for window in self._windows:
            window.add(interval)


@contextmanager
def window(
    backend: BackendProtocol,
    metric: str = "peak",
    *,
    workspace: int = 0,
    trace: bool = False,
    evidence: bool = False,
    most: int = MOST,
    search: HolderSearch = None,
) -> Iterator[Window]:
    """Measures the body of the ``with``, also as a part of an outer window on the same device.

    The outermost window collects garbage before it begins and turns automatic collection off until
    it ends, so that peaks repeat. If memory runs out, ``Window.out_of_memory`` is set and the error
    propagates, its frames cleared of the tensors they pinned. With ``evidence``, the measurement
    has a timeline if the recorder sees allocations and frees; it lists the ``most`` largest tensors
    one by one. With ``search``, a traced window names who holds the tensors that it leaves, or
    those of a peak.
    """
    stack = _stack(backend, trace, search)
    window = Window(workspace, evidence, most, stack.traced)
    try:
        stack.open(window, metric)
        yield window
        stack.told = True
    except GeneratorExit:  # left open until now, when the interpreter may be ending
        raise
    except BaseException as error:
        refused = out_of_memory(backend, error)
        if refused is not None:
            window.out_of_memory = refused
            traceback.clear_frames(error.__traceback__)
        elif stack.windows == [window]:
            program_failed(backend, error)
        raise
    finally:
        stack.close(window)


@contextmanager
def nothing_left_open() -> Iterator[None]:
    """Ends every window that the body leaves open, as an unfinished generator does."""
    before = [window for stack in _RUNNING.stacks for window in stack.windows]
    try:
        yield
    finally:
        for stack in [*_RUNNING.stacks]:
            for window in [window for window in stack.windows if window not in before]:
                stack.close(window)


def out_of_memory(backend: BackendProtocol, error: BaseException | None) -> str | None:
    """Returns the request that failed, if ``error`` or one of its causes says memory ran out."""
    if isinstance(error, GeneratorExit):  # Python may be ending, without torch
        return None
    requests = (backend.out_of_memory(cause) for cause in causes(error))
    return next((request for request in requests if request is not None), None)


def program_failed(backend: BackendProtocol, error: BaseException | None) -> None:
    """Tells a backend that has to know which error ended the program; it may set ``starts_again``.

    A program that may know a number is judged as it ran: the number may be what it failed for.
    ``failed`` is not required of a backend.
    """
    if any(stack.told and _is_on(stack, backend) for stack in _RUNNING.stacks):
        return
    failed: Callable[[Exception], None] | None = getattr(backend, "failed", None)
    if failed is not None and isinstance(error, Exception):
        failed(error)


def is_measured(backend: BackendProtocol) -> bool:
    """Returns True if a window is open on the backend's device."""
    return any(_is_on(stack, backend) for stack in _RUNNING.stacks)


def allocation_of(backend: BackendProtocol, storage: Any) -> int | None:
    """Returns the number of the allocation that holds a storage, in the open traced window.

    ``None`` if no open window's recorder knows it. A CUDA tracer knows the storages that were
    alive when the last inner window ended.
    """
    for stack in _RUNNING.stacks:
        find = getattr(stack.recorder, "allocation_of", None)
        if find is not None and _is_on(stack, backend):
            number: int | None = find(storage)
            return number
    return None


def _is_on(stack: WindowStack, backend: BackendProtocol) -> bool:
    return (stack.backend.name, stack.backend.device) == (backend.name, backend.device)


def _stack(backend: BackendProtocol, trace: bool, search: HolderSearch) -> WindowStack:
    """Returns the stack of the backend's device, or a new one after a garbage collection.

    A program that starts again finds the device emptied, and what its first run left on it counts
    nowhere: garbage was collected before that run, and is not again.
    """
    for stack in _RUNNING.stacks:
        if _is_on(stack, backend):
            return stack
    stack = WindowStack(backend, backend.tracer() if trace else backend.gauge(), trace, search)
    if not getattr(backend, "starts_again", ""):
        gc.collect()
    stack.context.enter_context(simulation_context(backend))
    gc.disable()
    _RUNNING.stacks.append(stack)
    return stack


@contextmanager
def pause() -> Iterator[Callable[[Any], None]]:
    """Pauses every measurement on this thread; yields a function that takes inputs' storages."""
    with ExitStack() as pauses:
        keepers = [pauses.enter_context(stack.pause()) for stack in _RUNNING.stacks]

        def keep(storage: Any) -> None:
            for keeper in keepers:
                keeper(storage)

        yield keep


def release_inputs() -> None:
    """Frees the inputs of this thread's measurements that the program dropped."""
    if any(stack.has_inputs for stack in _RUNNING.stacks):
        with pause():
            pass


@contextmanager
def unseen() -> Iterator[None]:
    """Hides the body from every measurement on this thread; a window in it measures separately."""
    with pause():
        hidden, _RUNNING.stacks = _RUNNING.stacks, []
        try:
            yield
        finally:
            _RUNNING.stacks = hidden


def _in_use(storage: Any) -> bool:
    """Returns True if ``storage`` has a reference besides ours."""
    import torch

    return torch._C._storage_Use_Count(storage._cdata) > 1
