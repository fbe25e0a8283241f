"""A measurement in the making, from the stretches that a gauge sees one after another."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from .allocations import Numbered, lives
from .measurement import Measurement
from .protocol import Backend, Delta, Interval
from .timeline import MOST, Event, Timeline, timeline


@dataclass(slots=True)
class _Total:
    """A rise over stretches, one after another."""

    peak: int = 0
    level: int = 0
    known: bool = True

    def add(self, rise: Delta | None) -> None:
        if rise is None:
            self.known = False
            return
        self.peak = max(self.peak, self.level + rise.peak)
        self.level += rise.final


@dataclass(slots=True, eq=False)
class Window:
    """A measurement in the making; ``measurement`` is there once it has ended."""

    workspace: int = 0
    evidence: bool = False
    """True to keep a timeline of tensors, which takes memory and time."""
    most: int = MOST
    """The number of tensors that the timeline tells each on its own."""
    traced: bool = False
    """True to keep every tensor that was allocated."""
    measurement: Measurement | None = None
    out_of_memory: str | None = None
    _started: float = field(default_factory=time.perf_counter)
    _requested: _Total = field(default_factory=_Total)
    _allocated: _Total = field(default_factory=_Total)
    _reserved: _Total = field(default_factory=_Total)
    _allocations: int = 0
    _problem: str | None = None
    _missing: str = ""
    _held: tuple[Numbered, ...] = ()
    _left: tuple[Numbered, ...] = ()
    _births: int | None = None
    _modules: frozenset[str] = field(default_factory=lambda: frozenset(sys.modules))
    _stretches: list[Interval] = field(default_factory=list)

    def add(self, stretch: Interval) -> None:
        """Add the next stretch that the gauge saw."""
        before = self._requested.peak
        self._requested.add(stretch.requested)
        if self._births is None:
            self._births = stretch.births
        if self._requested.peak > before:
            self._held = self._own(stretch.held)
        self._left = self._own(stretch.left)
        self._allocated.add(stretch.allocated)
        self._reserved.add(stretch.reserved)
        self._allocations += stretch.allocations
        self._problem = self._problem or stretch.problem
        self._missing = self._missing or stretch.missing
        self.out_of_memory = self.out_of_memory or stretch.out_of_memory or None
        if self.evidence or self.traced:
            self._stretches.append(stretch)

    def _own(self, tensors: Iterable[Numbered]) -> tuple[Numbered, ...]:
        """Returns the tensors allocated in this window, the largest first."""
        own = (tensor for tensor in tensors if tensor[0] >= (self._births or 0))
        return tuple(sorted(own, key=lambda tensor: -tensor[1].nbytes))

    @property
    def level(self) -> int:
        """Requested bytes alive now, above the start."""
        return self._requested.level

    @property
    def imported(self) -> str:
        """The first module of torch that was imported since the start; empty where none was."""
        new = (name for name in [*sys.modules] if name not in self._modules)
        return next((name for name in new if name.startswith("torch.")), "")

    def close(self, backend: Backend, pinned: int = 0) -> None:
        """Write the measurement."""
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
            out_of_memory=self.out_of_memory,
            held=tuple(held for _, held in self._held),
            left=tuple(held for _, held in self._left),
            lives=lives(self._events(), self._held, self._left) if self.traced else None,
            timeline=self._timeline() if self.evidence else None,
            snapshots=tuple(s.snapshot for s in self._stretches if s.snapshot and self.evidence),
        )

    def _timeline(self) -> Timeline | None:
        told = [(first, events) for first, events in self._events() if events is not None]
        return timeline(told, self.most) if told and len(told) == len(self._stretches) else None

    def _events(self) -> list[tuple[int, Sequence[Event] | None]]:
        return [(stretch.births, stretch.events) for stretch in self._stretches]
