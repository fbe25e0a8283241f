"""Workloads measured on several backends at once, held to the first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from .peaks import Peaks


class Measures(Protocol):
    """A backend that is asked for one workload at a time."""

    def ask(self, name: str, until: float) -> str:
        """Asks for a workload; returns why that was not possible, or an empty text."""

    def answer(self, until: float) -> Peaks:
        """Returns the peaks of the workload that was asked for."""


@dataclass(frozen=True, slots=True)
class Row:
    """The peaks of one workload by backend; the first backend is the reference."""

    name: str
    found: Mapping[str, Peaks]

    @property
    def reference(self) -> Peaks:
        """Returns the peaks that the others are held to."""
        return next(iter(self.found.values()))

    @property
    def others(self) -> Mapping[str, Peaks]:
        """Returns backend → peaks, without the reference."""
        return dict([*self.found.items()][1:])

    @property
    def differences(self) -> Mapping[str, tuple[int, ...]]:
        """Returns backend → bytes more than the reference, where both were measured."""
        if not self.reference.known:
            return {}
        return {
            name: peaks.less(self.reference) for name, peaks in self.others.items() if peaks.known
        }

    @property
    def differs(self) -> bool:
        """Returns True if a backend that measured has other bytes."""
        return any(any(less) for less in self.differences.values())

    @property
    def compared(self) -> bool:
        """Returns True if every backend measured."""
        return all(peaks.known for peaks in self.found.values())


def compare(
    backends: Mapping[str, Measures],
    names: Sequence[str],
    seconds: float,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Row]:
    """Yields a row for each workload that was reached in time; all backends run it at once."""
    until = clock() + seconds
    for name in names:
        if clock() >= until:
            return
        refused = {backend: peer.ask(name, until) for backend, peer in backends.items()}
        yield Row(
            name,
            {
                backend: Peaks(problem=refused[backend]) if refused[backend] else peer.answer(until)
                for backend, peer in backends.items()
            },
        )
