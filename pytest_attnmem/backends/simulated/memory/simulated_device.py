"""The memory of a simulated device: its allocator, its workspaces and its numbers for a window.

This module does not import torch: the caller describes each tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from ....allocator import AllocationError, AllocatorSettings, CachingAllocator, Statistics
from ....measurement.held import Held
from ....measurement.protocol import Delta, Interval
from ....measurement.timeline import AllocEvent
from ....profiles import DeviceProfile
from ....torch_releases import Version
from ....units import format_size
from ...tracing.live_tensors import LiveTensors, Watch
from ..scratch.workspaces import CUBLAS, CUBLASLT, Workspaces


class AllocatorWork:
    """A context for each call of the allocator.

    A collection may begin in the middle of it, outside windows or where a program enables it, and
    free tensors. Their blocks wait for its end.
    """

    def __init__(self, free: Callable[[Any], None]) -> None:
        self.running = False
        self.waiting: list[Any] = []
        """The blocks to free at the end."""
        self._free = free

    def __enter__(self) -> None:
        self.running = True

    def __exit__(self, *_: object) -> None:
        self.running = False
        while self.waiting:
            self._free(self.waiting.pop(0))


#: Describes an allocation. Called only when a report reads it, because the text is slow to make.
DescribeHeld = Callable[[], Held]

#: Describes a workspace of so many bytes.
DescribeWorkspace = Callable[[int], Held]

#: The threads of a process that run operators; each has its own handle of every library.
MAIN, BACKWARD = "main", "backward"

#: The bytes of a device that never runs out of memory.
_UNLIMITED = 1 << 60

#: Why a workspace on a stream that PyTorch handed out twice is unknown.
_SHARED = (
    "PyTorch has 32 streams of a priority, which it hands out in turn, and the test's stream was"
    " another one's before, which may have left it a workspace; make streams once for all tests"
)

_KINDS = ("requested", "allocated", "reserved")


class DeviceName(str):
    """The device's name as written by this package, not by a program."""

    __slots__ = ()


class DeviceBlock(NamedTuple):
    """One allocation, until it is freed."""

    address: int
    number: int
    """The number of the allocation, or -1 for an input, which no window counts."""
    allocator: CachingAllocator
    lowers: int
    """The bytes of a tensor from before the window: if it is freed, others can take its place."""


#: Makes a block in half the time that its class takes, at each operator.
_new_block = tuple.__new__


class Device:
    """The memory of one device; ``restart`` empties it, as in a new process."""

    def __init__(
        self,
        profile: DeviceProfile,
        settings: AllocatorSettings,
        version: Version,
        workspaces: Workspaces,
    ) -> None:
        self.profile = profile
        self.version = version
        """The version of PyTorch that the device behaves as."""
        self.workspaces = workspaces
        """The workspaces of libraries, which the environment configures."""
        self.stream = 0
        self.stream_is_shared = False
        """True if PyTorch handed out the current stream more than once."""
        self.recording = False
        """True during a window; memory allocated outside windows is an input."""
        self.out_of_memory = ""
        self._settings = settings
        self._live_tensors = LiveTensors()  # without inputs, which no window counts
        self._work = AllocatorWork(self.free)
        self.restart()

    def restart(self) -> None:
        """Drops every allocation; a tensor that is still alive becomes an input when used."""
        self.allocator = CachingAllocator(self._settings, capacity=self.profile.memory_bytes)
        self._kept_workspaces: set[tuple[str, str, int]] = set()
        self._live_tensors.forget()
        self._window_peaks = dict.fromkeys(_KINDS, 0)  # since the window began
        self._program_peaks = dict.fromkeys(_KINDS, 0)  # since the program reset its peaks
        self.begin()

    @contextmanager
    def unlimited(self) -> Iterator[None]:
        """Lets the body use any number of bytes."""
        self.allocator.extend(_UNLIMITED)
        try:
            yield
        finally:
            self.empty_cache()
            self.allocator.extend(-_UNLIMITED)

    # Allocations

    def allocate(self, nbytes: int, describe: DescribeHeld) -> DeviceBlock | None:
        """Allocates memory; returns None if ``nbytes`` is 0.

        Raises:
            AllocationError: the memory does not fit; ``out_of_memory`` says where.
        """
        if nbytes == 0:
            return None
        if not self.recording:
            return self.add_older(nbytes)
        allocator = self.allocator
        try:
            with self._work:
                address = allocator.malloc(nbytes, self.stream)
                number = self._live_tensors.allocate(nbytes, describe)
        except AllocationError:
            where = describe().where
            self.out_of_memory = f"needs {format_size(nbytes)} more" + (
                f" at {where}" if where else ""
            )
            raise
        return _new_block(DeviceBlock, (address, number, allocator, 0))

    def watch(self, watch: Watch | None) -> None:
        """Has ``watch`` see each allocation, or nobody."""
        self._live_tensors.watch = watch

    def add_older(self, nbytes: int) -> DeviceBlock | None:
        """Allocates memory for a tensor from before the window, whose free lowers the level."""
        if nbytes == 0:
            return None
        with self._work, self._excluded():
            address = self.allocator.malloc(nbytes, self.stream)
        return DeviceBlock(address, -1, self.allocator, nbytes)

    def free(self, block: DeviceBlock) -> None:
        """Frees a block, or has it freed once the allocator has done its present work."""
        if self._work.running:
            self._work.waiting.append(block)
            return
        with self._work:
            self._free(block)

    def _free(self, block: DeviceBlock) -> None:
        if block.allocator is not self.allocator:  # allocated before a restart
            return
        if block.number < 0 and not (block.lowers and self.recording):
            with self._excluded():
                self.allocator.free(block.address)
            return
        self.allocator.free(block.address)
        if block.number < 0:
            self._live_tensors.free_older(block.lowers)
        else:
            self._live_tensors.free(block.number)

    def empty_cache(self) -> None:
        """Releases the memory that the allocator keeps for later allocations."""
        with self._work:
            self.allocator.empty_cache()

    def record_stream(self, block: DeviceBlock, stream: int) -> None:
        """Keeps a block from reuse until another stream is done with it."""
        self.allocator.record_stream(block.address, stream)

    def use_workspace(self, library: str, thread: str, describe: DescribeWorkspace) -> str | None:
        """Gives a workspace to a thread's handle of a library for one call on this stream.

        Returns why nobody knows if it was there already, or None.
        """
        owner, nbytes = self.workspaces.of(library)
        if not self.workspaces.kept:
            block = self.allocate(nbytes, partial(describe, nbytes))
            if block is not None:
                self.free(block)
            return None
        key = (owner, thread, self.stream)
        if key not in self._kept_workspaces:
            self._kept_workspaces.add(key)
            self.allocate(nbytes, partial(describe, nbytes))
        return _SHARED if self.stream_is_shared else None

    def prime(self) -> None:
        """Allocates the workspaces that a small product, forward and backward, leaves behind."""
        if not self.workspaces.kept:
            return
        current = self.stream
        first = ((CUBLAS, MAIN, 0), (CUBLASLT, MAIN, 0), (CUBLAS, BACKWARD, 0))
        for library, thread, stream in first:
            self.stream = stream
            self.use_workspace(library, thread, partial(Held.of_workspace, library=library))
        self.stream = current

    # The numbers of a window

    def begin(self) -> None:
        """Begins a window."""
        self._take_peaks()
        self._window_peaks = self._levels()
        self._window_start = dict(self._window_peaks)
        self._window_deltas = dict.fromkeys(_KINDS, 0)
        self._live_tensors.begin()
        self.out_of_memory = ""

    def interval(self, problem: str | None = None) -> Interval:
        """Returns the numbers of the window since ``begin``."""
        self._take_peaks()
        levels = self._levels()

        def rise(kind: str) -> Delta:
            start = self._window_start[kind]
            high = max(self._window_deltas[kind], self._window_peaks[kind] - start)
            return Delta(high, levels[kind] - start)

        return self._live_tensors.interval(
            **{kind: rise(kind) for kind in _KINDS},
            problem=problem,
            out_of_memory=self.out_of_memory,
        )

    def events(self) -> Iterator[Held | int]:
        """Yields each allocation since ``begin``, or the number of a freed one, counted from 0."""
        for event in self._live_tensors.events:
            if isinstance(event, AllocEvent):
                yield event.about()
            elif event.number >= 0:
                yield event.number - self._live_tensors.first

    def _levels(self) -> dict[str, int]:
        statistics = self.allocator.statistics
        return {kind: getattr(statistics, kind).current for kind in _KINDS}

    def _take_peaks(self) -> None:
        """Moves the allocator's peaks into those of the window and of the program."""
        statistics = self.allocator.statistics
        for kind in _KINDS:
            peak = getattr(statistics, kind).peak
            self._window_peaks[kind] = max(self._window_peaks[kind], peak)
            self._program_peaks[kind] = max(self._program_peaks[kind], peak)
        self.allocator.reset_peak()

    @contextmanager
    def _excluded(self) -> Iterator[None]:
        """Leaves the change of the levels in the body out of the window's numbers."""
        self._take_peaks()
        before = self._levels()
        yield
        after = self._levels()
        for kind in _KINDS:
            rise = self._window_peaks[kind] - self._window_start[kind]
            self._window_deltas[kind] = max(self._window_deltas[kind], rise)
            self._window_start[kind] += after[kind] - before[kind]
            self._window_peaks[kind] = after[kind]
            self._program_peaks[kind] = max(self._program_peaks[kind], after[kind])
        self.allocator.reset_peak()

    # The numbers that the program reads

    def peaks(self) -> Mapping[str, int]:
        """Returns the highest bytes since the program reset its peaks, by kind."""
        self._take_peaks()
        return self._program_peaks

    def reset_peaks(self) -> None:
        """Resets the peaks that the program reads; those of the window stay."""
        self._take_peaks()
        self._program_peaks = self._levels()

    @property
    def statistics(self) -> Statistics:
        """Returns the allocator's counters; their peaks are not those that the program reads."""
        return self.allocator.statistics
