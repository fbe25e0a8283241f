"""The tensors of a traced window, by the number of their allocation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .held import Held
from .timeline import AllocEvent, Event

Numbered = tuple[int, Held]


@dataclass(frozen=True, slots=True)
class TracedTensors:
    """All tensors that were allocated in a window, and those alive at its peak and its end."""

    allocated: tuple[Numbered, ...]
    """The tensors in the order of their allocation."""
    at_peak: tuple[int, ...]
    """The tensors alive at the peak, in the order of ``Measurement.held``."""
    at_end: tuple[int, ...]
    """The tensors alive at the end, in the order of ``Measurement.left``."""


def traced_tensors(
    intervals: Iterable[tuple[int, Sequence[Event] | None]],
    held: Iterable[Numbered],
    left: Iterable[Numbered],
) -> TracedTensors:
    """Returns the tensors of a window.

    ``intervals`` are its parts: the number of the first allocation, and the events.
    """
    allocated = (
        (first + place, event.about())
        for first, events in intervals
        for place, event in enumerate(e for e in events or () if isinstance(e, AllocEvent))
    )
    return TracedTensors(tuple(allocated), tuple(n for n, _ in held), tuple(n for n, _ in left))
