"""Notes what a program does that no simulation follows: compiled code, and other threads."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch._dynamo import eval_frame  # now: an import in a window leaves frames with tensors

from ..cpu_threads import ThreadWatch

_OWN_THREAD = "only the test's own thread is simulated"


class Unsimulated:
    """The compilations and threads of one window."""

    def __init__(self) -> None:
        self._compiled = False
        self._thread_started = False
        self._thread_watch = ThreadWatch()

    def start(self) -> None:
        """Begins a window."""
        self._compiled = self._thread_started = False
        self._thread_watch.start()

    def stop(self) -> str | None:
        """Ends the window; returns why its numbers may be wrong because of an older thread."""
        if self._thread_watch.stop() is None:
            return None
        return f"another thread ran, and {_OWN_THREAD}"

    def problem(self) -> str | None:
        """Returns why the numbers may be wrong because of the program itself."""
        if self._compiled:
            return "compiled code cannot be simulated"
        if self._thread_started:
            return f"the test started a thread, and {_OWN_THREAD}"
        return None

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the patches that note both, by owner and name; compiled code runs eagerly."""
        original = threading.Thread.start

        def compile(model: Any = None, **options: Any) -> Any:
            if not options.get("disable") and options.get("backend") != "eager":
                self._compiled = True
            return (lambda function: function) if model is None else model

        def start(thread: threading.Thread) -> None:
            self._thread_started = True
            original(thread)

        decide = eval_frame._callback_from_stance

        def eager(callback: Any) -> Any:
            if decide(callback) not in (None, False):
                self._compiled = True
            return None

        return {
            (torch, "compile"): compile,
            (threading.Thread, "start"): start,
            (eval_frame, "_callback_from_stance"): eager,
        }
