"""A watch for other threads that run while memory is measured."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from itertools import chain, starmap, tee
from types import FrameType

#: The time that a thread may run without having allocated a tensor: a wait that times out.
_NEGLIGIBLE_NS = 20_000
#: The number of times that clocks are compared until they stand still, and the seconds between.
_COMPARISONS, _PAUSE_S = 10, 0.0002

#: The time that each thread has run, in nanoseconds, by the number of its clock.
_Times = dict[int, int]

_API = ctypes.pythonapi
_INTERPRETER = _API.PyInterpreterState_Get
_INTERPRETER.argtypes, _INTERPRETER.restype = (), ctypes.c_void_p
_NEW = _API.PyThreadState_New
_NEW.argtypes, _NEW.restype = (ctypes.c_void_p,), ctypes.c_void_p
_NUMBER = _API.PyThreadState_GetID
_NUMBER.argtypes, _NUMBER.restype = (ctypes.c_void_p,), ctypes.c_uint64
_CLEAR, _DELETE = _API.PyThreadState_Clear, _API.PyThreadState_Delete
_CLEAR.argtypes, _CLEAR.restype = (ctypes.c_void_p,), None
_DELETE.argtypes, _DELETE.restype = (ctypes.c_void_p,), None


#: By module and name, of the class or of what the thread runs. tqdm starts one at the first
#: progress bar, to redraw it; that of pytest-rerunfailures wakes at each signal: a worker ends.
_WITHOUT_TENSORS = frozenset(
    {
        ("tqdm._monitor", "TMonitor"),
        ("pytest_rerunfailures", "ServerStatusDB.run_server"),
        ("pytest_attnmem.cli.terminal", "ProgressLine"),
    }
)


def allocates_nothing(thread: threading.Thread) -> bool:
    """Returns True for a thread of a library that has nothing to do with tensors."""
    known = (type(thread), getattr(thread, "_target", None))
    return any(
        (getattr(one, "__module__", ""), getattr(one, "__qualname__", "")) in _WITHOUT_TENSORS
        for one in known
    )


class ThreadWatch:
    """Notices threads that start or run: the profilers do not see their allocations.

    Threads of kernels do not count: they run no Python and allocate no tensors.
    """

    def __init__(self) -> None:
        self._times: _Times = {}

    def start(self) -> None:
        """Begins to watch."""
        threads = _threads()
        times = _times(threads)
        # A thread that has not run since the last window began has reached its wait.
        self._times = times if times == self._times else _settled(threads)
        self._names = {clock: threads[clock] for clock in self._times}
        self._newest = _newest()

    def stop(self, followed: Iterable[threading.Thread] = (), begun: int = 0) -> str | None:
        """Stops watching; returns why allocations may be missing, ``None`` if no thread ran.

        Threads that are ``followed`` do not count; ``begun`` of them began meanwhile.
        """
        started = _newest() - self._newest - 1 - begun
        sees = "and the cpu backend sees the test's own thread and those that it starts"
        if started > 0:
            threads = "a thread was" if started == 1 else f"{started} threads were"
            return f"{threads} started, {sees}"
        names = self._names | _threads()
        for thread in followed:
            if thread.native_id is not None:
                names.pop(_clock(thread.native_id), None)
        times = _times(names)
        for clock, name in names.items():
            before, after = self._times.get(clock), times.get(clock)
            # A thread may also have ended, or have begun although it was started before.
            if before is None or after is None or after - before > _NEGLIGIBLE_NS:
                return f"thread {name!r} ran meanwhile, {sees}"
        return None


def _newest() -> int:
    """Returns the number that Python gives to a thread now; it numbers all threads that run it.

    ``threading`` cannot count them: a program may start threads without it or replace its hooks.
    The state of a thread has a number, and no thread need run for it: to start one takes 0.1 ms,
    and longer where the machine is busy.
    """
    state = _NEW(_INTERPRETER())
    number: int = _NUMBER(state)
    _CLEAR(state)
    _DELETE(state)
    return number


def _settled(clocks: Iterable[int]) -> _Times:
    """Returns the times, after a thread that was started just now has reached its wait."""
    times = _times(clocks)
    for _ in range(_COMPARISONS if times else 0):
        time.sleep(_PAUSE_S)
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
    own = threading.get_ident()  # after a fork, its native_id may still be that of the parent
    known = {
        _clock(thread.native_id): thread.name
        for thread in threading.enumerate()
        if thread.native_id is not None and thread.ident != own
    }
    threads = _unknown() | known
    threads.pop(_clock(threading.get_native_id()), None)
    for thread in threading.enumerate():
        if thread.native_id is not None and allocates_nothing(thread):
            threads.pop(_clock(thread.native_id), None)
    return threads


def _clock(thread: int) -> int:
    """Returns the number of a thread's clock, as Linux encodes it."""
    return ~thread << 3 | 6


def _unknown() -> dict[int, str]:
    """Returns the name of each thread in Python code, by clock; ``threading`` may not know it."""
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return {}  # a thread could end meanwhile, and reading its clock would crash
    # A single call of C code, so that no thread runs or ends between the two functions.
    idents, again = tee(chain.from_iterable(starmap(sys._current_frames, [()])))
    clocks = dict(zip(idents, map(time.pthread_getcpuclockid, again), strict=True))
    frames = sys._current_frames()
    del frames[threading.get_ident()]  # a frame that holds itself would hold its callers' tensors
    found = {}
    for ident, frame in frames.items():
        stack = [frame for frame, _ in traceback.walk_stack(frame)]
        if ident in clocks and not any(map(_feeds_worker, stack)):
            found[clocks[ident]] = stack[-1].f_code.co_name
    return found


def _feeds_worker(frame: FrameType) -> bool:
    """Returns True in the thread that feeds a worker of pytest-xdist."""
    gateway = frame.f_globals.get("WorkerGateway")
    return isinstance(gateway, type) and isinstance(frame.f_locals.get("self"), gateway)
