"""Noticing that other threads ran."""

from __future__ import annotations

import _thread
import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, starmap, tee
from types import FrameType

#: What a thread may run without having allocated a tensor: a wait that times out, no more.
_NEGLIGIBLE_NS = 20_000
#: How often, and how many seconds apart, it is looked whether threads are at rest.
_LOOKS, _A_MOMENT = 10, 0.0002

#: Taken now, because a program may put a function of its own in its place.
_START = _thread.start_new_thread

#: The time that each thread has run, in nanoseconds, by the number of its clock.
_Times = dict[int, int]

_STATE = ctypes.pythonapi.PyThreadState_Get
_STATE.argtypes, _STATE.restype = (), ctypes.c_void_p
_NUMBER = ctypes.pythonapi.PyThreadState_GetID
_NUMBER.argtypes, _NUMBER.restype = (ctypes.c_void_p,), ctypes.c_uint64


class ThreadWatch:
    """Notices threads that start or run, whose allocations the profilers do not see.

    Threads of kernels do not count: they run no Python, and allocate no tensor of their own.
    """

    def start(self) -> None:
        """Begin to watch."""
        threads = _threads()
        self._times = _settled(threads)
        self._names = {clock: threads[clock] for clock in self._times}
        self._newest = _newest()

    def stop(self) -> str | None:
        """End it; why what was seen may not be all."""
        started = _newest() - self._newest - 1
        sees = "and the cpu backend sees the test's own thread only"
        if started > 0:
            threads = "a thread was" if started == 1 else f"{started} threads were"
            return f"{threads} started, {sees}"
        names = self._names | _threads()
        times = _times(names)
        for clock, name in names.items():
            before, after = self._times.get(clock), times.get(clock)
            # A thread may also have ended, or have begun although it was started before.
            if before is None or after is None or after - before > _NEGLIGIBLE_NS:
                return f"thread {name!r} ran meanwhile, {sees}"
        return None


def _newest() -> int:
    """Returns the number of a thread that is started now; Python numbers every thread that runs it.

    A program may start threads past ``threading``, and may replace its hooks.
    """
    told: list[int] = []
    done = _thread.allocate_lock()
    done.acquire()

    def tell() -> None:
        told.append(_NUMBER(_STATE()))
        done.release()

    _START(tell, ())
    done.acquire()
    return told[0]


def _settled(clocks: Iterable[int]) -> _Times:
    """Returns the times, once a thread that was started just now has come to its wait."""
    times = _times(clocks)
    for _ in range(_LOOKS if times else 0):
        time.sleep(_A_MOMENT)
        before, times = times, _times(clocks)
        if times == before:
            break
    return times


def _times(clocks: Iterable[int]) -> _Times:
    """Returns the time on each clock whose thread has not ended."""
    times = {}
    for clock in clocks:
        with suppress(OSError):
            times[clock] = time.clock_gettime_ns(clock)
    return times


def _threads() -> dict[int, str]:
    """Returns the name of each other thread that runs Python, by its clock.

    The dict is empty where the system has no such clocks.
    """
    if sys.platform != "linux":
        return {}
    known = {
        _clock(thread.native_id): thread.name
        for thread in threading.enumerate()
        if thread.native_id is not None
    }
    threads = _unknown() | known
    threads.pop(_clock(threading.get_native_id()), None)
    return threads


def _clock(thread: int) -> int:
    """Returns the number of a thread's clock, as Linux encodes it."""
    return ~thread << 3 | 6


def _unknown() -> dict[int, str]:
    """Returns the threads in Python code, by their clocks, with those that ``threading`` lacks."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return {}  # a thread could end meanwhile, and asking for its clock would crash
    # A single call of C code, so that no thread runs, nor ends, between the two functions.
    idents, again = tee(chain.from_iterable(starmap(sys._current_frames, [()])))
    clocks = dict(zip(idents, map(time.pthread_getcpuclockid, again), strict=True))
    frames = sys._current_frames()
    del frames[threading.get_ident()]  # a frame that holds itself would hold its callers' tensors
    found = {}
    for ident, frame in frames.items():
        stack = [frame for frame, _ in traceback.walk_stack(frame)]
        if ident in clocks and not any(map(_allocates_nothing, stack)):
            found[clocks[ident]] = stack[-1].f_code.co_name
    return found


def _allocates_nothing(frame: FrameType) -> bool:
    """Whether the frame is of a thread of ours, or of the one that feeds a pytest-xdist worker."""
    gateway = frame.f_globals.get("WorkerGateway")
    fed = isinstance(gateway, type) and isinstance(frame.f_locals.get("self"), gateway)
    return fed or frame.f_globals is globals()
