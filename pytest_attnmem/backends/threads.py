"""Noticing that other threads ran."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import suppress
from typing import Any

#: What a thread may run without having allocated a tensor: a wait that times out, no more.
_NEGLIGIBLE_NS = 20_000
#: How often, and how many seconds apart, it is looked whether threads are at rest.
_LOOKS, _A_MOMENT = 10, 0.0002


class ThreadWatch:
    """Notices threads that start or run, whose allocations the profilers do not see."""

    def start(self) -> None:
        """Begin to watch."""
        self._started = 0
        self._before = threading.getprofile()
        self._clocks = _settled()
        threading.setprofile(self._notice)

    def stop(self) -> str | None:
        """End it; why what was seen may not be all."""
        threading.setprofile(self._before)
        sees = "and the cpu backend sees the test's own thread only"
        if self._started:
            threads = "a thread was" if self._started == 1 else f"{self._started} threads were"
            return f"{threads} started, {sees}"
        for thread, clock in _clocks().items():
            if clock - self._clocks.get(thread, clock) > _NEGLIGIBLE_NS:
                return f"thread {thread.name!r} ran meanwhile, {sees}"
        return None

    def _notice(self, frame: Any, event: Any, argument: Any) -> None:
        self._started += 1
        sys.setprofile(self._before)
        if self._before is not None:
            self._before(frame, event, argument)


def _settled() -> dict[threading.Thread, int]:
    """The clocks, once a thread that was started just now has come to its wait."""
    clocks = _clocks()
    for _ in range(_LOOKS if clocks else 0):
        time.sleep(_A_MOMENT)
        before, clocks = clocks, _clocks()
        if clocks == before:
            break
    return clocks


def _clocks() -> dict[threading.Thread, int]:
    """How long each other thread has run, in nanoseconds; empty where the system does not say."""
    own = threading.get_native_id()
    clocks = {}
    for thread in threading.enumerate():
        if thread.native_id not in (None, own):
            # Not by pthread_getcpuclockid, which a thread that ends just now would make crash.
            with suppress(OSError), open(f"/proc/self/task/{thread.native_id}/schedstat") as file:
                clocks[thread] = int(file.read().split()[0])
    return clocks
