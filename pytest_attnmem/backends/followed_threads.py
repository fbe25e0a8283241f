"""The threads that a measured test starts, each with a profiler of its own: PyTorch's see one."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from operator import itemgetter

from .cpu_profilers import Heard, Profiler, in_backward
from .cpu_threads import allocates_nothing
from .started_threads import StartedThreads

#: The seconds that threads have to end, whose test did not wait for their end.
_PATIENCE_S = 0.05

#: Its result is a borrowed reference, which ``py_object`` as its type would give away.
_LOCALS = ctypes.pythonapi.PyThreadState_GetDict
_LOCALS.argtypes, _LOCALS.restype = (), ctypes.c_void_p


class FollowedThreads:
    """Listens to the threads that begin in a window."""

    def __init__(self, profiler: type[Profiler]) -> None:
        self._profiler = profiler
        self._running: dict[int, tuple[threading.Thread, Profiler]] = {}  # by identifier
        self._heard: list[Heard] = []
        self.started = StartedThreads(self._heard_in)
        """The threads."""

    def start(self) -> None:
        """Follows threads from their start, from now on."""
        if self._profiler.one_a_thread:
            self.started.start()

    def stop(self) -> tuple[list[Heard], str | None]:
        """Stops following; returns the events of threads that ended, and why some are missing."""
        if self._profiler.one_a_thread:
            self.started.stop()
        problem = None
        until = time.monotonic() + _PATIENCE_S
        for thread in [*self.started.known]:  # one that begins just now is in no list of ours
            if allocates_nothing(thread):
                continue
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                problem = f"thread {thread.name!r} still runs, and its allocations are not known"
        heard, self._heard = self._heard, []
        return heard, next((one.problem for one in heard if one.problem), problem)

    def give_way(self) -> None:
        """Stops listening to this thread, where the program starts a profiler."""
        if not in_backward() and threading.get_ident() in self._running:
            thread, profiler = self._running.pop(threading.get_ident())
            why = f"thread {thread.name!r} started a profiler, which takes the place of ours"
            self._heard.append(profiler.stop()._replace(problem=why))

    @contextmanager
    def _heard_in(self, thread: threading.Thread) -> Iterator[None]:
        if allocates_nothing(thread):
            yield
            return
        ident, profiler, problem = threading.get_ident(), self._profiler(), None
        profiler.start()
        self._running[ident] = thread, profiler
        try:
            yield
        except BaseException as error:
            # Its frames keep tensors until the thread ends.
            kind = type(error).__name__
            problem = f"thread {thread.name!r} raised {kind}, and what it then frees is not seen"
            raise
        finally:
            _clear_locals()  # the thread's end would free these tensors, unheard
            if ident in self._running:
                heard = profiler.stop()
                self._heard.append(heard._replace(problem=problem or heard.problem))
                del self._running[ident]


def _clear_locals() -> None:
    """Frees what objects of ``threading.local`` keep for this thread, as its end does."""
    state = _LOCALS()
    if state:
        ctypes.cast(state, ctypes.py_object).value.clear()


def in_order(own: Heard, others: Iterable[Heard]) -> list[int]:
    """Returns the sizes of all threads as they came, from the start of ``own`` on."""
    timed = (
        (own.mark.cpu_elapsed_us(event), size)
        for heard in (own, *others)
        for event, size in zip(heard.events, heard.sizes, strict=True)
    )
    return [size for when, size in sorted(timed, key=itemgetter(0)) if when >= 0]
