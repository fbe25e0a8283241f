"""The tensors that are allocated and not yet freed, and those of the highest point."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, overload

from ...measurement.held import Held
from ...measurement.protocol import Delta, Interval
from ...measurement.timeline import AllocEvent, Event, FreeEvent

#: What sees each allocation: its number, and what describes it.
Watch = Callable[[int, Callable[[], Held]], None]
#: The number of a tensor from before all intervals.
_OLDER: Final = -1


class EventLog(Sequence[Event]):
    """The events of an interval, kept as plain pairs, and made when somebody reads them."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, Callable[[], Held] | int]] = []
        """The bytes of each event, and what describes the allocation or the number of the freed."""

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, index: int) -> Event: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Event]: ...

    def __getitem__(self, index: int | slice) -> Event | Sequence[Event]:
        if isinstance(index, slice):
            return [_event(*entry) for entry in self.entries[index]]
        return _event(*self.entries[index])


def _event(nbytes: int, other: Callable[[], Held] | int) -> Event:
    return FreeEvent(other, nbytes) if isinstance(other, int) else AllocEvent(nbytes, other)


class LiveTensors:
    """The live tensors, kept over intervals: a tensor of an earlier interval is still known."""

    def __init__(self) -> None:
        self.count = 0
        """The number of allocations so far, which is the number of the next one."""
        self.watch: Watch | None = None
        """Sees each allocation, where somebody watches."""
        self._alive: dict[int, tuple[int, Callable[[], Held]]] = {}
        self.begin()

    def begin(self) -> None:
        """Begins an interval."""
        self.first = self.count
        self._at_begin = dict(self._alive)
        self.events = EventLog()
        """The events of the interval."""
        self._level = self._peak = self._events_at_peak = 0

    def forget(self) -> None:
        """Forgets all live tensors; a later free of one is ignored."""
        self._alive.clear()

    def allocate(self, nbytes: int, about: Callable[[], Held]) -> int:
        """Adds a tensor; returns its number."""
        number, entries = self.count, self.events.entries
        self.count = number + 1
        self._alive[number] = made = (nbytes, about)
        entries.append(made)
        self._level += nbytes
        if self._level > self._peak:
            self._peak = self._level
            self._events_at_peak = len(entries)
        if self.watch is not None:
            self.watch(number, about)
        return number

    def free(self, number: int) -> None:
        """Removes a tensor, unless it was removed before."""
        made = self._alive.pop(number, None)
        if made is not None:
            nbytes = made[0]
            self._level -= nbytes
            self.events.entries.append((nbytes, number))

    def free_older(self, nbytes: int) -> None:
        """Lowers the level by a tensor that is not among the live ones, and is freed."""
        self._level -= nbytes
        self.events.entries.append((nbytes, _OLDER))

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
            events=self.events,
        )
        self.begin()  # thousands of events would slow down the next garbage collection
        return ended

    def _alive_at_peak(self) -> dict[int, tuple[int, Callable[[], Held]]]:
        alive, number = dict(self._at_begin), self.first
        for entry in self.events.entries[: self._events_at_peak]:
            nbytes, other = entry
            if isinstance(other, int):
                alive.pop(other, None)
            else:
                alive[number] = nbytes, other
                number += 1
        return alive


def _described(
    alive: Iterable[tuple[int, tuple[int, Callable[[], Held]]]],
) -> tuple[tuple[int, Held], ...]:
    # A description may start a collection of garbage, which frees some of the tensors.
    return tuple((number, about()) for number, (_, about) in [*alive])
