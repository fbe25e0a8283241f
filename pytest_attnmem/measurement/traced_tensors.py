"""The tensors of a traced window, by the number of their allocation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from .held import Held
from .tensor_kinds import Kind, kind
from .timeline import AllocEvent, Event

Numbered = tuple[int, Held]

#: The tensors of a group of equal ones that come before those of other groups.
_OF_A_GROUP: Final = 3


@dataclass(frozen=True, slots=True)
class TracedTensors:
    """All tensors that were allocated in a window, and those alive at its peak and its end."""

    allocated: tuple[Numbered, ...]
    """The tensors in the order of their allocation."""
    at_peak: tuple[int, ...]
    """The tensors alive at the peak, in the order of ``Measurement.held``."""
    at_end: tuple[int, ...]
    """The tensors alive at the end, in the order of ``Measurement.left``."""
    freed: Mapping[int, int] = field(default_factory=dict)
    """The number of tensors that were allocated when each was freed; missing: alive at the end."""

    def most_like(self, before: Mapping[Kind, int]) -> tuple[Held, ...]:
        """Returns the tensors alive at the moment that has most bytes of ``before``.

        ``before`` are the numbers of tensors of each kind. Of several such moments, it is the one
        with most bytes of any tensor.
        """
        frees: dict[int, list[int]] = {}
        for number, count in self.freed.items():
            frees.setdefault(count, []).append(number)
        alive: dict[int, Held] = {}
        counts: Counter[Kind] = Counter()
        shared = total = 0
        best, moment = (-1, -1), -1
        for count, (number, held) in enumerate(self.allocated):
            for freed in frees.get(count, ()):
                gone = kind(alive.pop(freed))
                shared -= gone.nbytes * (counts[gone] <= before.get(gone, 0))
                counts[gone] -= 1
                total -= gone.nbytes
            one = kind(held)
            alive[number] = held
            counts[one] += 1
            shared += one.nbytes * (counts[one] <= before.get(one, 0))
            total += one.nbytes
            if (shared, total) > best:
                best, moment = (shared, total), count
        return tuple(
            held
            for number, held in self.allocated[: moment + 1]
            if self.freed.get(number, moment + 1) > moment
        )


def by_importance(tensors: Iterable[Numbered]) -> list[int]:
    """Returns the numbers of tensors, given largest first: some of each group, then the others."""
    count: Counter[Held] = Counter()
    first: list[int] = []
    others: list[int] = []
    for number, held in tensors:
        if not held.scratch:
            count[held] += 1
            (first if count[held] <= _OF_A_GROUP else others).append(number)
    return first + others


def traced_tensors(
    intervals: Iterable[tuple[int, Sequence[Event] | None]],
    held: Iterable[Numbered],
    left: Iterable[Numbered],
) -> TracedTensors:
    """Returns the tensors of a window.

    ``intervals`` are its parts: the number of the first allocation, and the events.
    """
    allocated: list[Numbered] = []
    freed: dict[int, int] = {}
    for first, events in intervals:
        number = first
        for event in events or ():
            if isinstance(event, AllocEvent):
                allocated.append((number, event.about()))
                number += 1
            else:
                freed[event.number] = len(allocated)
    own = {number for number, _ in allocated}
    return TracedTensors(
        tuple(allocated),
        tuple(number for number, _ in held),
        tuple(number for number, _ in left),
        {number: count for number, count in freed.items() if number in own},
    )
