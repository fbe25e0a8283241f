"""The tensors of a traced window, by the number of their birth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .measurement import Held
from .timeline import Birth, Event

Numbered = tuple[int, Held]


@dataclass(frozen=True, slots=True)
class Lives:
    """All tensors that were born in a window, and those that count."""

    births: tuple[Numbered, ...]
    """In the order of birth."""
    held: tuple[int, ...]
    """The tensors alive at the peak, in the order of ``Measurement.held``."""
    left: tuple[int, ...]
    """The tensors alive at the end, likewise."""


def lives(
    stretches: Iterable[tuple[int, Sequence[Event] | None]],
    held: Iterable[Numbered],
    left: Iterable[Numbered],
) -> Lives:
    """Returns the lives in a window, of the stretches it is cut into: first number and events."""
    births = (
        (first + place, birth.about())
        for first, events in stretches
        for place, birth in enumerate(e for e in events or () if isinstance(e, Birth))
    )
    return Lives(tuple(births), tuple(n for n, _ in held), tuple(n for n, _ in left))
