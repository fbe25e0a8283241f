"""The allocations and frees of a window's tensors, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from ..units import format_size
from .held import Held

#: The number of tensors that a timeline lists one by one.
MOST = 128
#: The number of parts of the window in which the other tensors are added up.
_PARTS = 32


class AllocEvent(NamedTuple):
    """An allocation."""

    nbytes: int
    about: Callable[[], Held]
    """Returns the tensor. Called only for a tensor that is listed: describing one takes time."""


class FreeEvent(NamedTuple):
    """A free."""

    number: int
    """The number of the allocation."""
    nbytes: int


Event = AllocEvent | FreeEvent


@dataclass(frozen=True, slots=True)
class Allocation:
    """A tensor, or a block of memory that no tensor is known for, and the events of its lifetime.

    Tensors allocated before the window have no allocation of their own. If one is freed inside the
    window, an allocation of negative size is added, so that the level stays correct.
    """

    held: Held
    allocated_at: int
    """The number of the event that allocated it; the first event of a window is 0."""
    freed_at: int | None
    """The number of the event that freed it; ``None``: alive at the end."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The allocations in one window. Time is the order of events, each an allocation or a free."""

    events: int
    spans: tuple[Allocation, ...]
    """In the order of allocation."""
    note: str = ""
    """The run that was observed, if it matters, and the memory that the timeline leaves out."""
    left_out: tuple[str, ...] = field(default=(), compare=False, repr=False)
    """The memory without a span of its own, a phrase each, which the note lists."""

    def __repr__(self) -> str:
        return f"<Timeline: {self.events} events, {len(self.spans)} allocations>"

    def seen_in(self, run: str) -> Timeline:
        """Returns the timeline with a note that it shows ``run``."""
        return replace(self, note="; ".join([run, *self.left_out]))

    def levels(self) -> list[int]:
        """Returns the bytes alive after each event."""
        spans = ((span.held.nbytes, span.allocated_at, span.freed_at) for span in self.spans)
        return _levels(spans, self.events)


@dataclass(slots=True)
class _Lifetime:
    """An allocation that is not described yet."""

    event: AllocEvent
    allocated_at: int
    freed_at: int | None = None

    @property
    def nbytes(self) -> int:
        return self.event.nbytes

    def described(self) -> Allocation:
        return Allocation(self.event.about(), self.allocated_at, self.freed_at)


def timeline(intervals: Iterable[tuple[int, Sequence[Event]]], most: int = MOST) -> Timeline:
    """Returns the timeline of a window from its intervals: the first number of each, and events.

    A tensor freed between two intervals counts as alive, as on a counter. If there are more than
    ``most`` tensors, the largest are listed and the others added up: exactly at the peak and at
    the end, and at their minimum over each part of the rest.
    """
    lifetimes: list[_Lifetime] = []
    known: dict[int, _Lifetime] = {}
    count = freed_earlier = 0
    for number, events in intervals:
        for event in events:
            if isinstance(event, AllocEvent):
                lifetimes.append(_Lifetime(event, count))
                known[number] = lifetimes[-1]
                number += 1
            elif event.number in known:
                known[event.number].freed_at = count
            else:
                lifetimes.append(_Lifetime(_negative(event.nbytes), count))
                freed_earlier += event.nbytes
            count += 1
    left_out = []
    if freed_earlier:
        left_out.append(
            f"{format_size(freed_earlier)} from before was freed in it and is subtracted"
        )
    if len(lifetimes) <= most:
        whole = Timeline(count, tuple(one.described() for one in lifetimes))
    else:
        left_out.append(f"the {len(lifetimes) - most} smallest are added up")
        whole = _renumbered(_largest(lifetimes, count, most))
    return replace(whole, left_out=tuple(left_out)).seen_in("the run itself") if left_out else whole


def _negative(nbytes: int) -> AllocEvent:
    return AllocEvent(-nbytes, lambda: Held(-nbytes, (), "", "(from before)", ""))


def _levels(spans: Iterable[tuple[int, int, int | None]], events: int) -> list[int]:
    """Returns the bytes alive after each event; ``spans`` are bytes, allocation and free."""
    steps = [0] * (events + 1)
    for nbytes, allocated_at, freed_at in spans:
        steps[allocated_at] += nbytes
        steps[events if freed_at is None else freed_at] -= nbytes
    return [*accumulate(steps[:events])]


def _levels_of(lifetimes: list[_Lifetime], events: int) -> list[int]:
    return _levels(((one.nbytes, one.allocated_at, one.freed_at) for one in lifetimes), events)


def _largest(lifetimes: list[_Lifetime], events: int, most: int) -> list[Allocation]:
    """Returns the largest allocations, and the sum of the others."""
    levels = _levels_of(lifetimes, events)
    peak = max(range(events), key=levels.__getitem__)

    def rank(one: _Lifetime) -> tuple[int, bool]:  # among equals, those alive at the peak first
        end = events if one.freed_at is None else one.freed_at
        return -one.nbytes, not one.allocated_at <= peak < end

    ordered = sorted(lifetimes, key=rank)
    return [
        *(one.described() for one in ordered[:most]),
        *_added_up(ordered[most:], events, peak),
    ]


def _added_up(lifetimes: list[_Lifetime], events: int, peak: int) -> Iterator[Allocation]:
    """Yields the sum at the peak and at the end, and its minimum over each part of the rest."""
    levels = _levels_of(lifetimes, events)
    cuts = {part * events // _PARTS for part in range(_PARTS)} | {peak, peak + 1, events - 1}
    parts = pairwise(sorted({*cuts, events}))
    for least, alike in groupby(parts, lambda part: min(levels[slice(*part)])):
        same = [*alike]
        start, end = same[0][0], same[-1][1]
        if least:
            others = Held(least, (), "", f"{len(lifetimes)} smaller", "")
            yield Allocation(others, start, end if end < events else None)


def _renumbered(spans: list[Allocation]) -> Timeline:
    """Returns a timeline of only the events that allocate or free one of ``spans``."""
    ends = {span.freed_at for span in spans if span.freed_at is not None}
    number = {
        event: place for place, event in enumerate(sorted(ends | {s.allocated_at for s in spans}))
    }
    ordered = sorted(spans, key=lambda span: span.allocated_at)
    return Timeline(
        len(number),
        tuple(
            Allocation(
                span.held,
                number[span.allocated_at],
                None if span.freed_at is None else number[span.freed_at],
            )
            for span in ordered
        ),
    )
