"""The tensors that are allocated and not yet freed, and those of the highest point."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...measurement.held import Held
from ...measurement.protocol import Delta, Interval
from ...measurement.timeline import AllocEvent, Event, FreeEvent


class LiveTensors:
    """The live tensors, kept over intervals: a tensor of an earlier interval is still known."""

    def __init__(self) -> None:
        self.count = 0
        """The number of allocations so far, which is the number of the next one."""
        self._alive: dict[int, AllocEvent] = {}
        self.begin()

    def begin(self) -> None:
        """Begins an interval."""
        self.first = self.count
        self._at_begin = dict(self._alive)
        self.events: list[Event] = []
        """The events of the interval."""
        self._level = self._peak = self._events_at_peak = 0

    def forget(self) -> None:
        """Forgets all live tensors; a later free of one is ignored."""
        self._alive.clear()

    def allocate(self, nbytes: int, about: Callable[[], Held]) -> int:
        """Adds a tensor; returns its number."""
        number = self.count
        self.count += 1
        allocation = self._alive[number] = AllocEvent(nbytes, about)
        self.events.append(allocation)
        self._level += nbytes
        if self._level > self._peak:
            self._peak = self._level
            self._events_at_peak = len(self.events)
        return number

    def free(self, number: int) -> None:
        """Removes a tensor, unless it was removed before."""
        allocation = self._alive.pop(number, None)
        if allocation is not None:
            self._level -= allocation.nbytes
            self.events.append(FreeEvent(number, allocation.nbytes))

    @property
    def delta(self) -> Delta:
        """Returns the change of the live bytes since the interval began."""
        return Delta(self._peak, self._level)

    def interval(self, requested: Delta, **others: Any) -> Interval:
        """Ends the interval and returns it; ``others`` are the fields that are not counted here."""
        ended = Interval(
            requested,
            **{"allocated": None, "reserved": None, **others},
            allocations=self.count - self.first,
            held=_described(self._alive_at_peak().items()),
            left=_described(self._alive.items()),
            first_allocation=self.first,
            events=tuple(self.events),
        )
        self.begin()  # thousands of events would slow down the next garbage collection
        return ended

    def _alive_at_peak(self) -> dict[int, AllocEvent]:
        alive, number = dict(self._at_begin), self.first
        for event in self.events[: self._events_at_peak]:
            if isinstance(event, AllocEvent):
                alive[number] = event
                number += 1
            else:
                del alive[event.number]
        return alive


def _described(alive: Iterable[tuple[int, AllocEvent]]) -> tuple[tuple[int, Held], ...]:
    return tuple((number, allocation.about()) for number, allocation in alive)
