"""The search for the first bad commit: as few measurements as possible, and unmeasurable ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum


class State(Enum):
    """The result of one commit."""

    GOOD = "good"
    BAD = "bad"
    SKIPPED = "skipped"
    """It cannot be measured."""


@dataclass(slots=True)
class Found:
    """The end of a search, as numbers of commits."""

    good: int
    """The last commit that is known to be good before ``bad``."""
    bad: int
    """The first commit that is known to be bad."""
    states: dict[int, State] = field(default_factory=dict)
    """The commits that were measured."""

    @property
    def candidates(self) -> range:
        """Returns the commits of which one is the first bad one: one, unless some are skipped."""
        return range(self.good + 1, self.bad + 1)


def search(count: int, state_of: Callable[[int], State]) -> Found:
    """Returns the first bad of ``count`` commits, of which the first is good and the last bad.

    It halves the interval; a commit that is skipped is replaced by the nearest one that is not.
    """
    found = Found(0, count - 1, {0: State.GOOD, count - 1: State.BAD})
    while number := _middle(found):
        state = found.states[number] = state_of(number)
        if state is State.GOOD:
            found.good = number
        elif state is State.BAD:
            found.bad = number
    return found


def _middle(found: Found) -> int:
    """Returns the number of the commit to measure next; 0 if there is none."""
    inside = [n for n in range(found.good + 1, found.bad) if n not in found.states]
    return min(inside, key=lambda n: abs(2 * n - found.good - found.bad), default=0)
