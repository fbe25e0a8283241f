"""CPU memory as PyTorch's own allocator reports it: every allocation and free, to the byte."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch

from ..errors import BackendUnavailable
from ..measurement.protocol import Delta, Interval, Recorder
from ..units import format_size
from .cpu_profilers import Profiler, ProfilerWatch, default_profiler, in_backward, is_profiling
from .cpu_threads import ThreadWatch
from .tracing.dispatch_tracker import Tracker, raised_at
from .warm_up import matrix_product

#: bad_alloc carries no text of its own, and torch's says how much it wanted.
_WANTED = re.compile(r"DefaultCPUAllocator: .*?you tried to allocate (\d+) bytes", re.DOTALL)


class Cpu:
    """The CPU of this process."""

    name = "cpu"
    computes = True
    device = "cpu"
    kinds = ("cpu",)

    def __init__(self, profiler: type[Profiler] | None = None) -> None:
        self._profiler = profiler or default_profiler()
        self._alive: Counter[int] = Counter()

    @property
    def symbols(self) -> Mapping[str, int]:
        """``threads``: kernels keep scratch for each."""
        return {"threads": torch.get_num_threads()}

    def prime(self) -> int:
        """Run a matrix product in each dtype once: libraries set themselves up on first use."""
        self._use_up_warning()
        gauge = self.gauge()
        gauge.start()
        try:
            for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16):
                matrix_product(self.device, dtype)
        finally:
            requested = gauge.stop().requested
        return requested.net if requested else 0

    def _use_up_warning(self) -> None:
        """Have the allocator warn of a block it did not see born where nobody reads it.

        It does so for the first and for each thousandth; the first belongs in no test's output.
        """
        block = [torch.empty(1)]
        profiler = self._profiler()
        with _silent_stderr():
            profiler.start()
            block.clear()
            profiler.stop()

    def gauge(self) -> Recorder:
        """The allocator's events; every metric is read from them."""
        return _EventGauge(self._profiler(), self._alive)

    def forget(self) -> None:
        """Take what was born in earlier tests for what nobody saw born."""
        self._alive.clear()

    def tracer(self) -> Recorder:
        """The dispatcher's view: tensors with names, and no scratch inside kernels."""
        return Tracker()

    def empty_cache(self) -> None:
        """Nothing: the CPU allocator keeps none."""

    def out_of_memory(self, error: BaseException) -> str | None:
        """``tried to allocate 64.0 GiB at attn.py:5``, when the allocator could not."""
        wanted = _WANTED.search(str(error)) if isinstance(error, RuntimeError) else None
        if wanted is None:
            return None
        return f"tried to allocate {format_size(int(wanted[1]))}{raised_at(error)}"


def open_backend(argument: str) -> Cpu:
    """The CPU backend; there is nothing to choose about it."""
    if argument:
        raise BackendUnavailable(f"backend 'cpu' takes no device number, got {argument!r}")
    return Cpu()


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Let what C++ code writes to file descriptor 2 go nowhere."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(nowhere)
        os.close(kept)


class _EventGauge:
    """Folds the allocator's events, which are sizes: births are positive, deaths negative.

    The death of a tensor from before the window lowers the level, as it does on a counter, if an
    earlier window of the test saw it born. Others do not: most die unreported, and of the rest the
    allocator may report a size that the address had under another owner.
    """

    def __init__(self, profiler: Profiler, alive: Counter[int]) -> None:
        self._profiler = profiler
        self._alive = alive  # sizes born in this test, by number
        self._threads = ThreadWatch()
        self._profilers = ProfilerWatch()
        self._listening = False
        self._problem = ""

    def start(self) -> None:
        if self._listening:  # since a stop that could not be
            return
        self._problem = _obstacle()
        if not self._problem:
            self._threads.start()
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
        if in_backward():  # no room can be made here; torch will say so
            return
        self._end()
        self._problem = "the test started a profiler, and a thread has room for one"

    def _end(self) -> tuple[list[int], str | None]:
        sizes, problem = self._profiler.stop()
        self._listening = False
        self._profilers.stop()
        return sizes, self._threads.stop() or problem

    def _fold(self, sizes: list[int], problem: str | None) -> Interval:
        level = high = allocations = 0
        alive = self._alive
        for size in sizes:
            if size > 0:
                alive[size] += 1
                allocations += 1
                level += size
                if level > high:
                    high = level
            elif alive[-size] > 0:
                alive[-size] -= 1
                level += size
        rise = Delta(high, level)  # the CPU allocator does not round
        return Interval(rise, rise, None, allocations, problem)


_IN_BACKWARD = "a region began or ended inside a backward function"


def _obstacle() -> str:
    """What stands in the way of listening."""
    if in_backward():
        return _IN_BACKWARD
    if is_profiling():
        return "another profiler is running on this thread"
    return ""
