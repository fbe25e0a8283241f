"""A window: the sum of the intervals that a recorder saw one after another."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .measurement import Measurement
from .protocol import BackendProtocol, Delta, Interval
from .timeline import MOST, Event, Timeline, timeline
from .traced_tensors import Numbered, by_importance, traced_tensors


@dataclass(slots=True)
class _Total:
    """The change over intervals, one after another."""

    peak: int = 0
    level: int = 0
    known: bool = True

    def add(self, delta: Delta | None) -> None:
        if delta is None:
            self.known = False
            return
        self.peak = max(self.peak, self.level + delta.peak)
        self.level += delta.final


@dataclass(slots=True, eq=False)
class Window:
    """A window; it has a ``measurement`` once it has ended."""

    workspace: int = 0
    evidence: bool = False
    """True to keep a timeline of tensors, which takes memory and time."""
    most: int = MOST
    """The number of tensors that the timeline lists one by one."""
    traced: bool = False
    """True to keep every tensor that was allocated."""
    measurement: Measurement | None = None
    out_of_memory: str | None = None
    """The request that failed, whose error left the window."""
    _recovered: str = ""
    _started: float = field(default_factory=time.perf_counter)
    _requested: _Total = field(default_factory=_Total)
    _allocated: _Total = field(default_factory=_Total)
    _reserved: _Total = field(default_factory=_Total)
    _allocations: int = 0
    _unseen: int = 0
    _problem: str | None = None
    _missing: str = ""
    _held: tuple[Numbered, ...] = ()
    _left: tuple[Numbered, ...] = ()
    _first_allocation: int | None = None
    _known_modules: int = field(default_factory=lambda: len(sys.modules))
    _intervals: list[Interval] = field(default_factory=list)

    def add(self, interval: Interval) -> None:
        """Adds the next interval that the recorder saw."""
        before = self._requested.peak
        self._requested.add(interval.requested)
        if self._first_allocation is None:
            self._first_allocation = interval.first_allocation
        if self._requested.peak > before:
            self._held = self._own(interval.held)
        self._left = self._own(interval.left)
        self._allocated.add(interval.allocated)
        self._reserved.add(interval.reserved)
        self._allocations += interval.allocations
        self._unseen = max(self._unseen, interval.unseen)
        self._problem = self._problem or interval.problem
        self._missing = self._missing or interval.missing
        self._recovered = self._recovered or interval.out_of_memory
        if self.evidence or self.traced:
            self._intervals.append(interval)

    def _own(self, tensors: Iterable[Numbered]) -> tuple[Numbered, ...]:
        """Returns the tensors allocated in this window, the largest first."""
        own = (tensor for tensor in tensors if tensor[0] >= (self._first_allocation or 0))
        return tuple(sorted(own, key=lambda tensor: -tensor[1].nbytes))

    def find_holders(self, find: Callable[[Sequence[int]], Mapping[int, str]]) -> None:
        """Adds who holds the tensors that are left; ``find`` takes their numbers."""
        found = find(by_importance(self._left))
        self._left = tuple(
            (number, replace(held, holder=found.get(number, ""))) for number, held in self._left
        )

    @property
    def level(self) -> int:
        """Returns the requested bytes alive now, above the start."""
        return self._requested.level

    @property
    def imported(self) -> str:
        """Returns the first module of torch that was imported since the start, or ""."""
        new = [*sys.modules][self._known_modules :]  # in the order of their import
        return next((name for name in new if name.startswith("torch.")), "")

    def close(self, backend: BackendProtocol, pinned: int = 0) -> None:
        """Ends the window: sets its measurement."""
        requested, allocated, reserved = self._requested, self._allocated, self._reserved
        self.measurement = Measurement(
            backend=backend.name,
            device=backend.device,
            peak_bytes=requested.peak if requested.known else None,
            allocated_bytes=allocated.peak if allocated.known else None,
            reserved_bytes=reserved.peak if reserved.known else None,
            retained_bytes=requested.level if requested.known else None,
            allocations=self._allocations,
            workspace_bytes=self.workspace,
            duration_s=time.perf_counter() - self._started,
            kinds=backend.kinds,
            symbols=backend.symbols,
            unmeasured=self._problem,
            imported=self.imported if pinned else "",
            pinned_bytes=pinned,
            missing=self._missing,
            unseen_bytes=self._unseen,
            out_of_memory=self.out_of_memory,
            recovered=self._recovered if self.out_of_memory is None else "",
            held=tuple(held for _, held in self._held),
            left=tuple(held for _, held in self._left),
            tensors=traced_tensors(self._events(), self._held, self._left) if self.traced else None,
            timeline=self._timeline() if self.evidence else None,
            snapshots=tuple(s.snapshot for s in self._intervals if s.snapshot and self.evidence),
        )

    def _timeline(self) -> Timeline | None:
        known = [(first, events) for first, events in self._events() if events is not None]
        return timeline(known, self.most) if known and len(known) == len(self._intervals) else None

    def _events(self) -> list[tuple[int, Sequence[Event] | None]]:
        return [(interval.first_allocation, interval.events) for interval in self._intervals]
