"""Workloads measured on several backends at once, held to the first."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final, Protocol

from ..errors import AttnMemError
from ..units import excerpt, shown

KINDS: Final = ("requested", "allocated", "reserved")


@dataclass(frozen=True, slots=True)
class Peaks:
    """The highest bytes of a window; or the reason why they are not known."""

    requested: int | None = None
    allocated: int | None = None
    reserved: int | None = None
    problem: str = ""
    """Why there are no numbers; empty if there are."""

    @property
    def known(self) -> bool:
        """Returns True if the three numbers were measured."""
        return not self.problem

    def less(self, other: Peaks) -> tuple[int, ...]:
        """Returns the three differences, in bytes. Both must be known."""
        pairs = ((getattr(self, kind), getattr(other, kind)) for kind in KINDS)
        return tuple(own - its for own, its in pairs)

    def as_json(self) -> dict[str, Any]:
        """Returns the numbers, or the problem alone."""
        numbers = {name: number for name, number in asdict(self).items() if name != "problem"}
        return {"problem": self.problem} if self.problem else numbers


def _bytes(value: object) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def read_peaks(value: object, where: str) -> Peaks:
    """Returns the peaks of a JSON value.

    Raises:
        AttnMemError: it is neither three whole numbers of bytes nor a problem.
    """
    if isinstance(value, Mapping):
        problem = value.get("problem")
        if isinstance(problem, str) and problem:
            return Peaks(problem=excerpt(problem, 300))
        requested, allocated, reserved = (_bytes(value.get(kind)) for kind in KINDS)
        if requested is not None and allocated is not None and reserved is not None:
            return Peaks(requested, allocated, reserved)
    raise AttnMemError(
        f"{where} is {shown(value)}; expected {', '.join(KINDS)} in bytes, or a problem"
    )


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
        found = {
            backend: Peaks(problem=refused[backend]) if refused[backend] else peer.answer(until)
            for backend, peer in backends.items()
        }
        yield Row(name, found)
