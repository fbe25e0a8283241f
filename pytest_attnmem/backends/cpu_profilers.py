"""The profilers of PyTorch, as far as they tell of the CPU allocator.

They are told of each of its events, scratch inside kernels included. The legacy profiler costs the
least by far and prints nothing; it is deprecated, so Kineto's stands ready behind the same two
functions. Both see the thread that starts them, and no other.

This is the one place that uses these private APIs (written against torch 2.13).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._C import _autograd
from torch._C._profiler import ProfilerActivity, _ExperimentalConfig
from torch.autograd import ProfilerConfig, ProfilerState, profiler, profiler_legacy  # type: ignore[attr-defined]

from ..errors import BackendUnavailable

#: What torch's profilers call to start, in their own modules; ours calls the originals.
_PROFILER_STARTS = (
    (profiler, "_prepare_profiler"),
    (profiler, "_enable_profiler"),
    (profiler_legacy, "_enable_profiler_legacy"),
)


_EXCHANGED = "the profiler of this thread was exchanged meanwhile"


def in_backward() -> bool:
    """Whether autograd's engine runs us: it has swapped the profiler of the thread, and will again.

    To stop or start one there would leave its callbacks behind, to the end of the process.
    """
    return torch._C._current_autograd_node() is not None


def is_profiling() -> bool:
    """Whether a profiler, of whatever kind, is on in this thread."""
    return bool(_autograd._profiler_enabled())


class ProfilerWatch:
    """Notices a profiler that the test starts on this thread, so that we can make room for it."""

    def start(self, give_way: Callable[[], None]) -> None:
        """Call ``give_way`` before a profiler starts on this thread."""
        thread = threading.get_ident()

        def watched(start: Callable[..., Any]) -> Callable[..., Any]:
            def starting(*args: Any, **kwargs: Any) -> Any:
                if threading.get_ident() == thread:
                    give_way()
                return start(*args, **kwargs)

            return starting

        self._kept = [
            (module, name, getattr(module, name))
            for module, name in _PROFILER_STARTS
            if hasattr(module, name)
        ]
        for module, name, function in self._kept:
            setattr(module, name, watched(function))

    def stop(self) -> None:
        """Watch no longer."""
        for module, name, function in self._kept:
            setattr(module, name, function)


class Profiler:
    """A source of the CPU allocator's events on this thread: positive for births."""

    def start(self) -> None:
        """Begin to listen."""
        raise NotImplementedError

    def stop(self) -> tuple[list[int], str | None]:
        """The sizes since ``start`` in order, and why they may not be all."""
        raise NotImplementedError


class LegacyProfiler(Profiler):
    """``torch.autograd.profiler_legacy`` without its record functions: 2 µs, and 2 µs an event."""

    def start(self) -> None:
        """Begin to listen."""
        config = ProfilerConfig(
            ProfilerState.CPU, False, True, False, False, False, _ExperimentalConfig()
        )
        _autograd._enable_profiler_legacy(config)
        _autograd._enable_record_function(False)

    def stop(self) -> tuple[list[int], str | None]:
        """The sizes since ``start``."""
        _autograd._enable_record_function(True)
        try:
            lists = _autograd._disable_profiler_legacy()
        except RuntimeError:  # no profiler is on, or a profiler of another kind
            return [], _EXCHANGED
        # A list begins with the mark that enabling makes, unless it was not ours that was on.
        whole = any(events and events[0].name() == "__start_profile" for events in lists)
        problem = None if whole else _EXCHANGED
        sizes = [[event.cpu_memory_usage() for event in events] for events in lists]
        sizes = [events for events in sizes if any(events)]
        if len(sizes) > 1:
            problem = f"{len(sizes)} threads allocated, and their order is not known"
        return (sizes[0] if sizes else []), problem


class KinetoProfiler(Profiler):
    """``torch.profiler`` with its allocator events alone: the fallback, about 14 µs an event."""

    def start(self) -> None:
        """Begin to listen."""
        config = ProfilerConfig(
            ProfilerState.KINETO, False, True, False, False, False, _ExperimentalConfig()
        )
        activities = {ProfilerActivity.CPU}
        _autograd._prepare_profiler(config, activities)
        _autograd._enable_profiler(config, activities)

    def stop(self) -> tuple[list[int], str | None]:
        """The sizes since ``start``."""
        try:
            result = _autograd._disable_profiler()
        except RuntimeError:
            return [], _EXCHANGED
        events = [event for event in result.events() if event.name() == "[memory]"]
        events.sort(key=lambda event: event.start_ns())
        return [event.nbytes() for event in events if event.device_type().name == "CPU"], None  # type: ignore[attr-defined]


def default_profiler() -> type[Profiler]:
    """The legacy profiler where this torch has it, Kineto's otherwise.

    Raises:
        BackendUnavailable: it has neither.
    """
    if hasattr(_autograd, "_enable_profiler_legacy"):
        return LegacyProfiler
    if hasattr(_autograd, "_enable_profiler"):
        return KinetoProfiler
    raise BackendUnavailable(
        f"backend 'cpu' knows no profiler of torch {torch.__version__}; 2.13 is known"
    )
