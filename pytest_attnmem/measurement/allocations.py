"""The tensors of a traced window, by the number of their allocation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .held import Held
from .timeline import AllocEvent, Event

Numbered = tuple[int, Held]


@dataclass(frozen=True, slots=True)
class Lives:
    """All tensors that were allocated in a window, and those alive at its peak and its end."""

    births: tuple[Numbered, ...]
    """The tensors in the order of their allocation."""
    held: tuple[int, ...]
    """The tensors alive at the peak, in the order of ``Measurement.held``."""
    left: tuple[int, ...]
    """The tensors alive at the end, in the order of ``Measurement.left``."""


def lives(
    stretches: Iterable[tuple[int, Sequence[Event] | None]],
    held: Iterable[Numbered],
    left: Iterable[Numbered],
) -> Lives:
    """Returns the lives in a window; ``stretches`` are its parts, with first number and events."""
    births = (
        (first + place, birth.about())
        for first, events in stretches
        for place, birth in enumerate(e for e in events or () if isinstance(e, AllocEvent))
    )
    return Lives(tuple(births), tuple(n for n, _ in held), tuple(n for n, _ in left))
