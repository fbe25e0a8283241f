"""Who is alive: births and deaths as they are told, and who was there at the highest point."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...measurement.held import Held
from ...measurement.protocol import Delta, Interval
from ...measurement.timeline import AllocEvent, Event, FreeEvent


class LiveTensors:
    """Kept over stretches: what was born in an earlier one is still known."""

    def __init__(self) -> None:
        self.births = 0
        """How many there were; the number of the next."""
        self._alive: dict[int, AllocEvent] = {}
        self.begin()

    def begin(self) -> None:
        """A stretch begins."""
        self.first = self.births
        self._at_begin = dict(self._alive)
        self.events: list[Event] = []
        """What was told since."""
        self._level = self._high = self._at_high = 0

    def forget(self) -> None:
        """Nobody is alive any more, and no death of theirs will be told."""
        self._alive.clear()

    def born(self, nbytes: int, about: Callable[[], Held]) -> int:
        """Something is born; its number."""
        number = self.births
        self.births += 1
        birth = self._alive[number] = AllocEvent(nbytes, about)
        self.events.append(birth)
        self._level += nbytes
        if self._level > self._high:
            self._high = self._level
            self._at_high = len(self.events)
        return number

    def died(self, number: int) -> None:
        """It is gone, unless it was before."""
        birth = self._alive.pop(number, None)
        if birth is not None:
            self._level -= birth.nbytes
            self.events.append(FreeEvent(number, birth.nbytes))

    @property
    def rise(self) -> Delta:
        """Of the bytes alive, since the stretch began."""
        return Delta(self._high, self._level)

    def stretch(self, requested: Delta, **others: Any) -> Interval:
        """What happened since; of what is rounded and the like, others know."""
        return Interval(
            requested,
            **{"allocated": None, "reserved": None, **others},
            allocations=self.births - self.first,
            held=_written(self._alive_at_high().items()),
            left=_written(self._alive.items()),
            births=self.first,
            events=tuple(self.events),
        )

    def _alive_at_high(self) -> dict[int, AllocEvent]:
        alive, number = dict(self._at_begin), self.first
        for event in self.events[: self._at_high]:
            if isinstance(event, AllocEvent):
                alive[number] = event
                number += 1
            else:
                del alive[event.number]
        return alive


def _written(alive: Iterable[tuple[int, AllocEvent]]) -> tuple[tuple[int, Held], ...]:
    return tuple((number, birth.about()) for number, birth in alive)
