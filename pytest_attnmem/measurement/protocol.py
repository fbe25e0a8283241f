"""The protocol between a window and a backend: what a backend measures, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from .held import Held
from .timeline import Event


@dataclass(frozen=True, slots=True)
class Delta:
    """A number of bytes over a stretch of time, relative to where it stood at the beginning."""

    peak: int
    """The highest value; at least 0."""
    final: int
    """The value at the end."""


@dataclass(frozen=True, slots=True)
class Interval:
    """What a gauge saw between ``start`` and ``stop``. ``None``: this backend cannot tell."""

    requested: Delta | None
    allocated: Delta | None
    reserved: Delta | None
    allocations: int
    problem: str | None = None
    """Why these numbers must not be taken for the truth."""
    missing: str = ""
    """Why a number is None."""
    out_of_memory: str = ""
    """That memory ran out, even if the error was caught."""
    held: tuple[tuple[int, Held], ...] = ()
    """The tensors alive at the highest point by number of birth, where the gauge is a tracer."""
    left: tuple[tuple[int, Held], ...] = ()
    """The tensors alive at the end, likewise."""
    births: int = 0
    """How many births the tracer had seen when this stretch began."""
    events: Sequence[Event] | None = None
    """What was born and died, births numbered from there on, where the gauge can tell."""
    snapshot: Mapping[str, Any] | None = None
    """What PyTorch's memory viewer opens, where the allocator makes it."""


class Recorder(Protocol):
    """Reads one device's memory; started and stopped any number of times, one after another."""

    def start(self) -> None:
        """Begin a stretch."""

    def stop(self) -> Interval:
        """End the stretch and tell what happened in it."""


class Backend(Protocol):
    """A way to observe memory on one device."""

    @property
    def name(self) -> str:
        """What it is asked for by: ``cpu``."""

    @property
    def device(self) -> str:
        """Which device it reads, as torch names it: ``cuda:0``."""

    @property
    def computes(self) -> bool:
        """Whether tensors have values there, for a test to look at."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The keys of a budget's dict that mean this device, closest first: ``sm90``, ``cuda``."""

    @property
    def symbols(self) -> Mapping[str, int]:
        """Facts of the device that formulas may read, such as ``threads``."""

    def prime(self) -> int:
        """Bring on the costs of first use; bytes that they leave allocated."""

    def gauge(self) -> Recorder:
        """A gauge for measuring."""

    def forget(self) -> None:
        """Another test begins: what earlier ones left is none of its own."""

    def tracer(self) -> Recorder:
        """A gauge that can tell who held memory; slower, for one more run of what failed."""

    def empty_cache(self) -> None:
        """Give unused segments back, where there are any."""

    def out_of_memory(self, error: BaseException) -> str | None:
        """What was asked for, if ``error`` says that memory ran out."""


def simulation_context(backend: Backend) -> AbstractContextManager[None]:
    """Where the programs run that ``backend`` measures: here, unless it has a world of its own."""
    offered: AbstractContextManager[None] = getattr(backend, "world", nullcontext)()
    return offered
