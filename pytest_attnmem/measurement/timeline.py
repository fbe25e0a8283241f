"""Who was alive when: the births and deaths of a window's tensors, in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from ..units import format_size
from .held import Held

#: How many lives are told each on its own, of a window that has more.
MOST = 128
#: How many parts of such a window the others are told in.
_PARTS = 32


class AllocEvent(NamedTuple):
    """Something is born."""

    nbytes: int
    about: Callable[[], Held]
    """Says what it is. Asked only when somebody reads it: to write it down takes its time."""


class FreeEvent(NamedTuple):
    """Something is gone."""

    number: int
    """Of its birth."""
    nbytes: int


Event = AllocEvent | FreeEvent


@dataclass(frozen=True, slots=True)
class Span:
    """The life of one tensor, or of one block of memory that no tensor is known for.

    Of what was there before the window no life is told. But once it dies, its bytes are taken off:
    by a span of negative size, so that the level is the one that a peak is measured in.
    """

    held: Held
    born: int
    """The number of the event it was born at; the first event of a window is 0."""
    died: int | None
    """The number of the event it died at; ``None``: alive at the end."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """The lives in one window. Time is the order of events, each a birth or a death."""

    events: int
    spans: tuple[Span, ...]
    """In order of birth."""
    note: str = ""
    """The run that was observed and what is left out; empty for the run itself if complete."""
    left_out: tuple[str, ...] = field(default=(), compare=False)
    """The allocations without a span of their own, a phrase each, which the note lists."""

    def seen_in(self, run: str) -> Timeline:
        """Returns the timeline with a note that it shows ``run``."""
        return replace(self, note="; ".join([run, *self.left_out]))

    def levels(self) -> list[int]:
        """Bytes alive after each event."""
        lives = ((span.held.nbytes, span.born, span.died) for span in self.spans)
        return _levels(lives, self.events)


@dataclass(slots=True)
class _Life:
    birth: AllocEvent
    born: int
    died: int | None = None

    @property
    def nbytes(self) -> int:
        return self.birth.nbytes

    def span(self) -> Span:
        return Span(self.birth.about(), self.born, self.died)


def timeline(stretches: Iterable[tuple[int, Sequence[Event]]], most: int = MOST) -> Timeline:
    """The lives in a window, of the stretches it is cut into: the first number of each, and events.

    What died while nobody looked counts as alive, as it does on a counter. Of more than ``most``
    lives the largest are told, and the others together: exactly where memory is highest and at
    the end, and elsewhere by no more than there was.
    """
    lives: list[_Life] = []
    known: dict[int, _Life] = {}
    events = earlier = 0
    for number, told in stretches:
        for event in told:
            if isinstance(event, AllocEvent):
                lives.append(_Life(event, events))
                known[number] = lives[-1]
                number += 1
            elif event.number in known:
                known[event.number].died = events
            else:
                lives.append(_Life(_taken_off(event.nbytes), events))
                earlier += event.nbytes
            events += 1
    left_out = (
        [f"{format_size(earlier)} from before died in it and is taken off"] if earlier else []
    )
    if len(lives) <= most:
        whole = Timeline(events, tuple(life.span() for life in lives))
    else:
        left_out.append(f"the {len(lives) - most} smallest are told together")
        whole = _renumbered(_largest(lives, events, most))
    return replace(whole, left_out=tuple(left_out)).seen_in("the run itself") if left_out else whole


def _taken_off(nbytes: int) -> AllocEvent:
    return AllocEvent(-nbytes, lambda: Held(-nbytes, (), "", "(from before)", ""))


def _levels(lives: Iterable[tuple[int, int, int | None]], events: int) -> list[int]:
    """Bytes alive after each event, of lives of so many bytes from one event to another."""
    steps = [0] * (events + 1)
    for nbytes, born, died in lives:
        steps[born] += nbytes
        steps[events if died is None else died] -= nbytes
    return [*accumulate(steps[:events])]


def _largest(lives: list[_Life], events: int, most: int) -> list[Span]:
    """The largest of them, and the others together."""
    levels = _levels(((life.nbytes, life.born, life.died) for life in lives), events)
    peak = max(range(events), key=levels.__getitem__)

    def rank(life: _Life) -> tuple[int, bool]:  # of equals, those that the peak is made of first
        return -life.nbytes, not life.born <= peak < (events if life.died is None else life.died)

    ordered = sorted(lives, key=rank)
    return [
        *(life.span() for life in ordered[:most]),
        *_together(ordered[most:], events, peak),
    ]


def _together(lives: list[_Life], events: int, peak: int) -> Iterator[Span]:
    """What all of them hold at the peak and at the end, and at least hold in parts of the rest."""
    levels = _levels(((life.nbytes, life.born, life.died) for life in lives), events)
    cuts = {part * events // _PARTS for part in range(_PARTS)} | {peak, peak + 1, events - 1}
    parts = pairwise(sorted({*cuts, events}))
    for least, alike in groupby(parts, lambda part: min(levels[slice(*part)])):
        same = [*alike]
        start, end = same[0][0], same[-1][1]
        if least:
            others = Held(least, (), "", f"{len(lives)} smaller", "")
            yield Span(others, start, end if end < events else None)


def _renumbered(spans: list[Span]) -> Timeline:
    """With the events alone at which something changes."""
    told = {span.born for span in spans} | {span.died for span in spans if span.died is not None}
    number = {event: place for place, event in enumerate(sorted(told))}
    ordered = sorted(spans, key=lambda span: span.born)
    return Timeline(
        len(number),
        tuple(
            Span(span.held, number[span.born], None if span.died is None else number[span.died])
            for span in ordered
        ),
    )
