"""The threads that a program starts, each run inside a context."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class StartedThreads:
    """Runs each thread that ``threading`` starts inside ``around(thread)``, from start to stop."""

    def __init__(
        self, around: Callable[[threading.Thread], AbstractContextManager[object]]
    ) -> None:
        self._around = around
        self._listening = False
        self._begun: list[None] = []
        self.known = weakref.WeakSet[threading.Thread]()
        """All threads that began while this object listened."""

    @property
    def begun(self) -> int:
        """The number of threads that began since ``start``."""
        return len(self._begun)

    def start(self) -> None:
        """Begins to listen."""
        self._listening, self._begun = True, []
        self._original = original = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            if not self._listening:  # a program replaced this function, and calls it still
                original(thread)
                return
            thread.run = self._inside(thread, vars(thread).get("run"))  # type: ignore[method-assign]
            self.known.add(thread)
            try:
                original(thread)
            except BaseException:
                self.known.discard(thread)
                raise
            self._begun.append(None)

        self._start = start
        threading.Thread.start = start  # type: ignore[assignment, method-assign]

    def stop(self) -> None:
        """Stops listening; threads that began stay in their contexts."""
        self._listening = False
        if threading.Thread.start is self._start:
            threading.Thread.start = self._original  # type: ignore[method-assign]

    def _inside(self, thread: threading.Thread, own: Any) -> Callable[[], None]:
        run = thread.run

        def inside() -> None:
            del thread.run  # or the thread would hold itself
            if own is not None:
                thread.run = own  # type: ignore[method-assign]
            with self._around(thread):
                run()

        return inside
