"""Noticing that other threads ran."""

from __future__ import annotations

import _thread
import ctypes
import threading
import time
from contextlib import suppress

#: What a thread may run without having allocated a tensor: a wait that times out, no more.
_NEGLIGIBLE_NS = 20_000
#: How often, and how many seconds apart, it is looked whether threads are at rest.
_LOOKS, _A_MOMENT = 10, 0.0002

#: Taken now, because a program may put a function of its own in its place.
_START = _thread.start_new_thread

#: The time that each thread has run, in nanoseconds, by the system's number and the thread's name.
_Clocks = dict[tuple[int, str], int]

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
        self._clocks = _settled()
        self._newest = _newest()

    def stop(self) -> str | None:
        """End it; why what was seen may not be all."""
        started = _newest() - self._newest - 1
        sees = "and the cpu backend sees the test's own thread only"
        if started > 0:
            threads = "a thread was" if started == 1 else f"{started} threads were"
            return f"{threads} started, {sees}"
        for thread, clock in _clocks().items():
            if clock - self._clocks.get(thread, clock) > _NEGLIGIBLE_NS:
                return f"thread {thread[1]!r} ran meanwhile, {sees}"
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


def _settled() -> _Clocks:
    """The clocks, once a thread that was started just now has come to its wait."""
    clocks = _clocks()
    for _ in range(_LOOKS if clocks else 0):
        time.sleep(_A_MOMENT)
        before, clocks = clocks, _clocks()
        if clocks == before:
            break
    return clocks


def _clocks() -> _Clocks:
    """Returns the time each other thread has run; empty where the system does not tell.

    Threads that ``threading`` does not know are left out: pytest-xdist's workers have one.
    """
    own = threading.get_native_id()
    clocks = {}
    for thread in threading.enumerate():
        if thread.native_id not in (None, own):
            # Not by pthread_getcpuclockid, which a thread that ends just now would make crash.
            with suppress(OSError), open(f"/proc/self/task/{thread.native_id}/schedstat") as file:
                clocks[thread.native_id, thread.name] = int(file.read().split()[0])
    return clocks
