"""The moment of a peak, found again in another run: who holds a tensor is known only there."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Protocol

from .held import Held
from .protocol import SearchTime
from .traced_tensors import TracedTensors, by_importance

#: The code that made a tensor, and its place among all tensors that this code made.
_Occurrence = tuple[object, int]


class _Find(Protocol):
    def __call__(self, numbers: Sequence[int], *, seconds: SearchTime) -> Mapping[int, str]:
        """Returns who holds the tensors with these numbers."""


class PeakWatch:
    """Searches for holders when the last of the tensors of a peak is allocated.

    The tensors are told by the code that made them, and by their order: a recorder may number them
    in another way. Parameters, gradients and what is saved for backward need no search;
    nor do variables of a function while the one that made them runs.
    """

    def __init__(self, tensors: TracedTensors, at_peak: Sequence[int], seconds: SearchTime) -> None:
        self._seconds = seconds
        places = _places(tensors)
        known = [(number, *places[number]) for number in at_peak if number in places]
        self._last = max(known, key=lambda one: one[0])[1] if known else None
        wanted = {number: held for number, _, held in known if not held.role and not held.holder}
        order = by_importance((number, wanted[number]) for number, *_ in known if number in wanted)
        self._wanted = {places[number][0]: number for number in order}
        self._functions = {number: held.function for number, held in wanted.items()}
        self.found: Mapping[int, str] = {}
        """Who holds the tensors of the peak, by their numbers."""

    @property
    def needed(self) -> bool:
        """Returns True if the peak has a tensor to search for."""
        return bool(self._wanted)

    def begin(self, find: _Find) -> None:
        """Begins another run; ``find`` searches for holders by the numbers of its recorder."""
        self._find = find
        self._counts: Counter[object] = Counter()
        self._numbers: dict[int, int] = {}  # by number of this run

    def allocated(self, number: int, about: Callable[[], Held]) -> None:
        """Takes a new tensor."""
        held = about()
        if not held.dtype:
            return
        kind = _kind(held)
        occurrence = kind, self._counts[kind]
        self._counts[kind] += 1
        if occurrence in self._wanted:
            self._numbers[number] = self._wanted[occurrence]
        if occurrence == self._last:
            self.found = self._search()

    def _search(self) -> dict[int, str]:
        order = {number: place for place, number in enumerate(self._wanted.values())}
        here = sorted(self._numbers, key=lambda number: order[self._numbers[number]])
        found = self._find(here, seconds=self._seconds)
        texts = {self._numbers[number]: text for number, text in found.items()}
        running = _running()
        return {
            number: text
            for number, text in texts.items()
            if not (text.startswith("the local ") and _runs(self._functions[number], running))
        }


def _runs(function: str, running: set[str]) -> bool:
    """Returns True if a function runs; a comprehension, ``<listcomp>``, is a part of one."""
    return function in running or function.startswith("<")


def _running() -> set[str]:
    """Returns the names of the functions that run: what they made may be a variable of another."""
    names: set[str] = set()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        names.add(frame.f_code.co_name)
        frame = frame.f_back
    return names


def _places(tensors: TracedTensors) -> dict[int, tuple[_Occurrence, Held]]:
    """Returns the occurrence of each tensor, by its number."""
    counts: Counter[object] = Counter()
    places = {}
    for number, held in tensors.allocated:
        if held.dtype:
            kind = _kind(held)
            places[number] = (kind, counts[kind]), held
            counts[kind] += 1
    return places


def _kind(held: Held) -> object:
    return held.op, held.where, held.function, held.dtype, held.shape
