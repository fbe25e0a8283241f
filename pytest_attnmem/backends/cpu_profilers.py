"""The profilers of PyTorch, used as a source of the CPU allocator's events.

The allocator reports each event to them, scratch inside kernels included. The legacy profiler is
the cheapest by far and prints nothing; it is deprecated, so Kineto's is the fallback behind the
same two functions. Both see only the thread that starts them.

No other module uses these private APIs (written against torch 2.13).
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

#: The functions that torch's profilers call to start, in their own modules; ours calls the
#: originals.
_PROFILER_STARTS = (
    (profiler, "_prepare_profiler"),
    (profiler, "_enable_profiler"),
    (profiler_legacy, "_enable_profiler_legacy"),
)
_EXCHANGED = "the profiler of this thread was exchanged meanwhile"


def in_backward() -> bool:
    """Returns True inside a backward pass, where autograd's engine swaps the thread's profiler.

    A profiler that is started or stopped there leaves its callbacks behind until the process ends.
    """
    return torch._C._current_autograd_node() is not None


def is_profiling() -> bool:
    """Returns True if a profiler of any kind is on in this thread."""
    return bool(_autograd._profiler_enabled())


class ProfilerWatch:
    """Notices a profiler that the test starts on this thread, so that ours can stop first."""

    def start(self, give_way: Callable[[], None]) -> None:
        """Calls ``give_way`` before a profiler starts on this thread, from now on."""
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
        """Stops watching."""
        for module, name, function in self._kept:
            setattr(module, name, function)


class Profiler:
    """A source of the CPU allocator's events on this thread: sizes, negative for frees."""

    def start(self) -> None:
        """Begins to listen."""
        raise NotImplementedError

    def stop(self) -> tuple[list[int], str | None]:
        """Returns the sizes since ``start`` in order, and the reason why some may be missing."""
        raise NotImplementedError


class LegacyProfiler(Profiler):
    """``torch.autograd.profiler_legacy`` without its record functions: 2 µs, and 2 µs an event."""

    def start(self) -> None:
        """Begins to listen."""
        config = ProfilerConfig(
            ProfilerState.CPU, False, True, False, False, False, _ExperimentalConfig()
        )
        _autograd._enable_profiler_legacy(config)
        _autograd._enable_record_function(False)

    def stop(self) -> tuple[list[int], str | None]:
        """Returns the sizes since ``start``."""
        _autograd._enable_record_function(True)
        try:
            lists = _autograd._disable_profiler_legacy()
        except RuntimeError:  # no profiler is on, or a profiler of another kind
            return [], _EXCHANGED
        # A list begins with the mark that enabling makes, unless another profiler was on.
        whole = any(events and events[0].name() == "__start_profile" for events in lists)
        problem = None if whole else _EXCHANGED
        sizes = [[event.cpu_memory_usage() for event in events] for events in lists]
        sizes = [events for events in sizes if any(events)]
        if len(sizes) > 1:
            problem = f"{len(sizes)} threads allocated, and their order is not known"
        return (sizes[0] if sizes else []), problem


class KinetoProfiler(Profiler):
    """``torch.profiler`` with only its allocator events: the fallback, about 14 µs an event."""

    def start(self) -> None:
        """Begins to listen."""
        config = ProfilerConfig(
            ProfilerState.KINETO, False, True, False, False, False, _ExperimentalConfig()
        )
        activities = {ProfilerActivity.CPU}
        _autograd._prepare_profiler(config, activities)
        _autograd._enable_profiler(config, activities)

    def stop(self) -> tuple[list[int], str | None]:
        """Returns the sizes since ``start``."""
        try:
            result = _autograd._disable_profiler()
        except RuntimeError:
            return [], _EXCHANGED
        events = [event for event in result.events() if event.name() == "[memory]"]
        events.sort(key=lambda event: event.start_ns())
        return [event.nbytes() for event in events if event.device_type().name == "CPU"], None  # type: ignore[attr-defined]


def default_profiler() -> type[Profiler]:
    """Returns the legacy profiler where this torch has it, else Kineto's.

    Raises:
        BackendUnavailable: this torch has neither.
    """
    if hasattr(_autograd, "_enable_profiler_legacy"):
        return LegacyProfiler
    if hasattr(_autograd, "_enable_profiler"):
        return KinetoProfiler
    raise BackendUnavailable(
        f"backend 'cpu' knows no profiler of torch {torch.__version__}; 2.13 is known"
    )
