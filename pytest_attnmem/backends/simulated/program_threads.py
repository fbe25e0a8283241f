"""The threads of programs: their operators are simulated too, one at a time.

PyTorch's modes are of one thread, so a thread of a program gets its own. Between windows the thread
runs in PyTorch as it is installed.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import MethodType
from typing import TYPE_CHECKING, Any

from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import _pop_mode, _push_mode

from ...errors import ProgramRefused
from ..cpu_threads import ThreadWatch, allocates_nothing

if TYPE_CHECKING:
    from .fake_mode import SimulatedFakeMode
    from .function_mode import SimulatedFunctionMode
    from .placement import Placement

#: The seconds that an operator waits for one of another thread, which may wait for this thread.
_PATIENCE_S = 20.0


class ProgramThreads:
    """The threads that the programs of one simulation started."""

    def __init__(
        self,
        fake_mode: SimulatedFakeMode,
        function_mode: SimulatedFunctionMode,
        placement: Placement,
    ) -> None:
        self._fake_mode = fake_mode
        self._placement = placement
        self._function_mode = function_mode
        self._threads = weakref.WeakSet[threading.Thread]()
        self._started = 0
        self._watch = ThreadWatch()
        self._turn = threading.RLock()

    def start(self) -> None:
        """Begins a window."""
        self._started = 0
        self._watch.start()

    def stop(self) -> str | None:
        """Ends the window; returns why its numbers may be wrong because of another thread."""
        if self._watch.stop(self._threads, self._started) is None:
            return None
        return "another thread ran, and only the threads that the test started are simulated"

    def is_own(self) -> bool:
        """Returns True in a thread that a program started."""
        return threading.current_thread() in self._threads

    def leave_in_child(self) -> bool:
        """Ends the window in a process that was forked; returns True in a thread of the program.

        Another thread may have had its turn, which never ends there.
        """
        self._fake_mode.running = False
        self._fake_mode.in_turn = nullcontext
        return self.is_own()

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the patch, by owner and name, that follows threads from their start."""
        original = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            self._threads.add(thread)
            self._started += 1
            if not allocates_nothing(thread):
                thread.run = self._simulated(thread.run)  # type: ignore[method-assign]
                self._take_turns()
            original(thread)

        return {(threading.Thread, "start"): start}

    def _simulated(self, run: Callable[[], None]) -> Callable[[], None]:
        def simulated() -> None:
            try:
                with _ThreadMode(self):
                    run()
            except (ProgramRefused, Exception):
                if not self._placement.starts_again:  # else the program runs again without it
                    raise

        return simulated

    def _take_turns(self) -> None:
        """Has the thread that measures wait for operators of other threads, from now on."""
        self._fake_mode.in_turn = self._taking_turns

        def in_turn(mode: SimulatedFunctionMode, *call: Any) -> Any:
            with self._taking_turns():
                return type(mode).__torch_function__(mode, *call)

        vars(self._function_mode)["__torch_function__"] = MethodType(in_turn, self._function_mode)

    def call(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: Any) -> Any:
        """Calls a function of PyTorch in a thread that a program started."""
        if not self._fake_mode.running:
            return func(*args, **(kwargs or {}))
        with self._taking_turns():
            _push_mode(self._fake_mode)
            try:
                return type(self._function_mode).__torch_function__(
                    self._function_mode, func, types, args, kwargs
                )
            finally:
                _pop_mode(self._fake_mode._mode_key)

    @contextmanager
    def _taking_turns(self) -> Iterator[None]:
        taken = self._turn.acquire(timeout=_PATIENCE_S)
        if not taken:
            self._function_mode.mark_unknown("an operator that waits for another thread")
        try:
            yield
        finally:
            if taken:
                self._turn.release()


class _ThreadMode(TorchFunctionMode):
    """The function mode of a thread that a program started."""

    def __init__(self, threads: ProgramThreads) -> None:
        super().__init__()
        self._threads = threads

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return self._threads.call(func, types, args, kwargs)
