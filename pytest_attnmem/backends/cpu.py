"""CPU memory as PyTorch's own allocator reports it: every allocation and free, to the byte."""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import torch

from ..errors import BackendUnavailable
from ..measurement.protocol import Delta, Interval, Recorder
from ..measurement.timeline import AllocEvent
from ..units import format_size
from .base import Backend
from .cpu_profilers import (
    Profiler,
    default_profiler,
    in_backward,
    is_profiling,
    note_all_blocks,
    profiler_watch,
)
from .cpu_threads import ThreadWatch
from .followed_threads import FollowedThreads, in_order
from .tracing.dispatch_tracker import Tracker, raised_at
from .warm_up import matrix_product

#: torch's text of the error, a plain RuntimeError (c10/core/impl/alloc_cpu.cpp); bad_alloc has
#: none. Only the allocators of accelerators have a type of their own.
_WANTED = re.compile(r"DefaultCPUAllocator: .*?you tried to allocate (\d+) bytes", re.DOTALL)


class Cpu(Backend):
    """The CPU of this process."""

    name = "cpu"
    device = "cpu"

    def __init__(self, profiler: type[Profiler] | None = None) -> None:
        note_all_blocks()
        self._profiler = profiler or default_profiler()

    @property
    def symbols(self) -> Mapping[str, int]:
        """Returns ``threads``: kernels keep scratch for each thread."""
        return {"threads": torch.get_num_threads()}

    def prime(self) -> int:
        """Runs a matrix product in each dtype: libraries set themselves up on first use."""
        recorder = self.gauge()
        recorder.start()
        try:
            for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
                matrix_product(self.device, dtype)
        finally:
            requested = recorder.stop().requested
        return requested.final if requested else 0

    def gauge(self) -> Recorder:
        """Returns a recorder of the allocator's events."""
        return _EventRecorder(self._profiler())

    def tracer(self) -> Recorder:
        """Returns the dispatcher's view, which also hears of memory that is of no tensor."""
        heard = _EventRecorder(self._profiler())
        return _HearingTracker(self.fault_of_dispatcher, heard)

    def out_of_memory(self, error: BaseException) -> str | None:
        """Returns ``tried to allocate 64.0 GiB at attn.py:5`` if the allocator could not."""
        wanted = _WANTED.search(str(error)) if isinstance(error, RuntimeError) else None
        if wanted is None:
            return None
        return f"tried to allocate {format_size(int(wanted[1]))}{raised_at(error)}"


def open_backend(argument: str) -> Cpu:
    """Returns the CPU backend, which takes no argument."""
    if argument:
        raise BackendUnavailable(f"backend 'cpu' takes no device number, got {argument!r}")
    return Cpu()


class _EventRecorder:
    """Adds up the allocator's events, which are sizes: an allocation is positive, a free negative.

    A tensor that is older than the window and freed in it lowers the level, as on a counter.
    """

    def __init__(self, profiler: Profiler) -> None:
        self._profiler = profiler
        self._threads = ThreadWatch()
        self._followed = FollowedThreads(type(profiler))
        self._profilers = profiler_watch()
        self._listening = False
        self._problem = ""
        self.sizes: list[int] = []
        """The events of the last interval."""

    def start(self) -> None:
        if self._listening:  # because ``stop`` could not end it
            return
        self._problem = _obstacle()
        if not self._problem:
            self._thread = threading.get_ident()
            self._threads.start()
            self._followed.start()
            self._profilers.start(self._give_way)
            self._profiler.start()
            self._listening = True

    def stop(self) -> Interval:
        if self._listening and in_backward():
            return Interval(None, None, None, 0, _IN_BACKWARD)
        if not self._listening:
            return Interval(None, None, None, 0, self._problem)
        return self._fold(*self._end())

    def _give_way(self) -> None:
        if threading.get_ident() != self._thread:
            self._followed.give_way()
            return
        if in_backward():  # our profiler cannot be stopped here; torch raises an error
            return
        self._end()
        self._problem = "the test started a profiler, which takes the place of ours"

    def _end(self) -> tuple[list[int], str | None]:
        own = self._profiler.stop()
        self._listening = False
        self._profilers.stop()
        others, problem = self._followed.stop()
        started = self._followed.started
        problem = self._threads.stop(started.known, started.begun) or problem
        sizes = in_order(own, others) if others and own.mark else own.sizes
        return sizes, problem or own.problem

    def _fold(self, sizes: list[int], problem: str | None) -> Interval:
        level = peak = allocations = 0
        self.sizes = sizes
        for size in sizes:
            level += size
            if size > 0:
                allocations += 1
                if level > peak:
                    peak = level
        delta = Delta(peak, level)  # the CPU allocator does not round
        return Interval(delta, delta, None, allocations, problem)


class _HearingTracker(Tracker):
    """Follows tensors, and listens to the allocator for what the dispatcher does not see."""

    def __init__(self, fault: str, events: _EventRecorder) -> None:
        super().__init__(fault)
        self._heard = events

    def start(self) -> None:
        super().start()
        self._heard.start()

    def stop(self) -> Interval:
        heard = self._heard.stop()
        seen = super().stop()
        if heard.problem:
            return seen
        tensors = Counter(
            event.nbytes for event in seen.events or () if isinstance(event, AllocEvent)
        )
        unseen = Counter(size for size in self._heard.sizes if size > 0) - tensors
        return replace(seen, unseen=max(unseen, default=0))


_IN_BACKWARD = "a region began or ended inside a backward function"


def _obstacle() -> str:
    """Returns why no profiler can be started here; empty if one can."""
    if in_backward():
        return _IN_BACKWARD
    if is_profiling():
        return "another profiler is running on this thread"
    return ""
