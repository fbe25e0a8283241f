"""The memory of a simulated device: its allocator, its workspaces, and what a gauge reads of them.

Free of torch: a tensor is what is told of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from ...allocator import AllocatorSettings, CachingAllocator, OutOfMemory, Statistics
from ...measurement.held import Held
from ...measurement.protocol import Delta, Interval
from ...measurement.timeline import AllocEvent
from ...profiles import DeviceProfile
from ...units import format_size
from ..tracing.live_tensors import LiveTensors

#: Says what a birth is. Asked only when somebody reads it: to write it down takes its time.
About = Callable[[], Held]

#: The threads of a process that run operators; each has a handle of its own to every library.
MAIN, BACKWARD = "main", "backward"

#: The bytes of a device on which everything fits.
_ENDLESS = 1 << 60

_KINDS = ("requested", "allocated", "reserved")


class DeviceName(str):
    """The device's name as this package writes it, which is told apart from a program's."""

    __slots__ = ()


class DeviceBlock(NamedTuple):
    """One allocation, until it is freed."""

    address: int
    birth: int
    """Its number, or -1 for an input, which no window counts."""
    allocator: CachingAllocator


class Device:
    """One device's memory from a fresh process on; ``restart`` begins another process."""

    def __init__(self, profile: DeviceProfile, settings: AllocatorSettings) -> None:
        self.profile = profile
        self.stream = 0
        self.listening = False
        """Whether a gauge is on; what is born while none is, is an input."""
        self.refused = ""
        self._settings = settings
        self._ledger = LiveTensors()  # of what windows count
        self.restart()

    def restart(self, endless: bool = False) -> None:
        """Forget every allocation; what is still alive is an input's when it is met again."""
        capacity = _ENDLESS if endless else self.profile.memory_bytes
        self.allocator = CachingAllocator(self._settings, capacity=capacity)
        self._workspaces: set[tuple[str, str, int]] = set()
        self._ledger.forget()
        self._read = dict.fromkeys(_KINDS, 0)  # highest since the gauge began
        self._told = dict.fromkeys(_KINDS, 0)  # highest since the program reset its peaks
        self.begin()

    # What happens to memory

    def allocate(self, nbytes: int, about: About) -> DeviceBlock | None:
        """Something is born; ``None`` if it takes no memory.

        Raises:
            OutOfMemory: it does not fit; that is remembered too.
        """
        if nbytes == 0:
            return None
        if not self.listening:
            return self.admit(nbytes)
        address = self._malloc(nbytes, about)
        return DeviceBlock(address, self._ledger.allocate(nbytes, about), self.allocator)

    def admit(self, nbytes: int) -> DeviceBlock | None:
        """An input is met: it takes room, and no window counts it."""
        if nbytes == 0:
            return None
        self._settle()
        before = self._levels()
        address = self.allocator.malloc(nbytes, self.stream)
        self._shift(before)
        return DeviceBlock(address, -1, self.allocator)

    def free(self, block: DeviceBlock) -> None:
        """It is gone."""
        if block.allocator is not self.allocator:  # of an earlier process
            return
        if block.birth < 0:
            self._settle()
            before = self._levels()
            self.allocator.free(block.address)
            self._shift(before)
            return
        self.allocator.free(block.address)
        self._ledger.free(block.birth)

    def workspace(self, name: str, thread: str, nbytes: int, about: About) -> None:
        """Give a library's handle its workspace, unless it has one on this stream."""
        key = (name, thread, self.stream)
        if key not in self._workspaces:
            self._workspaces.add(key)
            self.allocate(nbytes, about)

    def _malloc(self, nbytes: int, about: About) -> int:
        try:
            return self.allocator.malloc(nbytes, self.stream)
        except OutOfMemory:
            where = about().where
            self.refused = f"needs {format_size(nbytes)} more" + (f" at {where}" if where else "")
            raise

    # What a gauge reads

    def begin(self) -> None:
        """A stretch begins."""
        self._settle()
        self._read = self._levels()
        self._origin = dict(self._read)
        self._highest = dict.fromkeys(_KINDS, 0)
        self._ledger.begin()
        self.refused = ""

    def stretch(self, problem: str | None = None) -> Interval:
        """What happened since ``begin``."""
        self._settle()
        levels = self._levels()

        def rise(kind: str) -> Delta:
            high = max(self._highest[kind], self._read[kind] - self._origin[kind])
            return Delta(high, levels[kind] - self._origin[kind])

        return self._ledger.interval(
            **{kind: rise(kind) for kind in _KINDS}, problem=problem, out_of_memory=self.refused
        )

    def events(self) -> Iterator[Held | int]:
        """What happened since ``begin``: what was born, or which birth died, counted from 0."""
        for event in self._ledger.events:
            yield (
                event.about()
                if isinstance(event, AllocEvent)
                else event.number - self._ledger.first
            )

    def _levels(self) -> dict[str, int]:
        statistics = self.allocator.statistics
        return {kind: getattr(statistics, kind).current for kind in _KINDS}

    def _settle(self) -> None:
        """Take the allocator's peaks down, for everybody who waits for one."""
        statistics = self.allocator.statistics
        for kind in _KINDS:
            peak = getattr(statistics, kind).peak
            self._read[kind] = max(self._read[kind], peak)
            self._told[kind] = max(self._told[kind], peak)
        self.allocator.reset_peak()

    def _shift(self, before: Mapping[str, int]) -> None:
        """Leave the change since ``before`` out of account."""
        after = self._levels()
        for kind in _KINDS:
            rise = self._read[kind] - self._origin[kind]
            self._highest[kind] = max(self._highest[kind], rise)
            self._origin[kind] += after[kind] - before[kind]
            self._read[kind] = after[kind]
            self._told[kind] = max(self._told[kind], after[kind])
        self.allocator.reset_peak()

    # What the program reads

    def peaks(self) -> Mapping[str, int]:
        """The highest bytes since the program reset its peaks, by kind."""
        self._settle()
        return self._told

    def reset_peaks(self) -> None:
        """As the program asks for it; the gauge does not mind."""
        self._settle()
        self._told = self._levels()

    @property
    def statistics(self) -> Statistics:
        """The allocator's counters; their peaks are not those of the program."""
        return self.allocator.statistics
