"""Who was alive when: the births and deaths of a window's tensors, in their order."""

from __future__ import annotations

from dataclasses import dataclass

from .measurement import Held


@dataclass(frozen=True, slots=True)
class Span:
    """The life of one tensor, or of one block of memory that no tensor is known for."""

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
    """What it leaves out, or how it was seen: ``the second run``."""

    def levels(self) -> list[int]:
        """Bytes alive after each event."""
        steps = [0] * (self.events + 1)
        for span in self.spans:
            steps[span.born] += span.held.nbytes
            steps[self.events if span.died is None else span.died] -= span.held.nbytes
        level, levels = 0, []
        for step in steps[: self.events]:
            level += step
            levels.append(level)
        return levels
