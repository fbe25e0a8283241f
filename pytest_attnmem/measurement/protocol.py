"""The protocol between a window and a backend."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

from .held import Held
from .timeline import Event


@dataclass(frozen=True, slots=True)
class Delta:
    """The change of a number of bytes over an interval, relative to its start."""

    peak: int
    """The highest value; at least 0."""
    final: int
    """The value at the end."""


@dataclass(frozen=True, slots=True)
class Interval:
    """The memory that a recorder saw between ``start`` and ``stop``. ``None``: not measurable."""

    requested: Delta | None
    allocated: Delta | None
    reserved: Delta | None
    allocations: int
    problem: str | None = None
    """Why the numbers may be wrong."""
    missing: str = ""
    """Why a number is ``None``."""
    out_of_memory: str = ""
    """The request that failed, even if the program caught the error; else empty."""
    held: tuple[tuple[int, Held], ...] = ()
    """The tensors alive at the peak, by number of allocation, where the recorder is a tracer."""
    left: tuple[tuple[int, Held], ...] = ()
    """The tensors alive at the end, likewise."""
    unseen: int = 0
    """The bytes of the largest allocation that is of no tensor, where the recorder is a tracer."""
    first_allocation: int = 0
    """The number of the first allocation of this interval."""
    events: Sequence[Event] | None = None
    """The allocations, numbered from there on, and frees, where the recorder sees them."""
    snapshot: Mapping[str, Any] | None = None
    """A snapshot for PyTorch's memory viewer, where the allocator makes one."""


@dataclass(slots=True)
class SearchTime:
    """The seconds that the searches for holders of tensors, after one failure, may compute."""

    left: float = 0.2
    _until: float = 0.0

    @contextmanager
    def spent(self) -> Iterator[None]:
        """Takes the time of the body from what is left."""
        self._until = time.thread_time() + self.left
        try:
            yield
        finally:
            self.left = self.remaining

    @property
    def remaining(self) -> float:
        """Returns the seconds that a body of ``spent`` still has."""
        return self._until - time.thread_time()


class Recorder(Protocol):
    """Reads one device's memory; started and stopped any number of times, one after another."""

    def start(self) -> None:
        """Begins an interval."""

    def stop(self) -> Interval:
        """Ends the interval and returns it."""


class BackendProtocol(Protocol):
    """A way to observe memory on one device; ``pytest_attnmem.backends.Backend`` has defaults."""

    @property
    def name(self) -> str:
        """The name that ``--attnmem-backend`` takes: ``cpu``."""

    @property
    def device(self) -> str:
        """The device that the backend reads, as torch names it: ``cuda:0``."""

    @property
    def computes(self) -> bool:
        """True if tensors have values on the device, for a test to look at."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The keys of a budget's dict that mean this device, closest first: ``sm90``, ``cuda``."""

    @property
    def symbols(self) -> Mapping[str, int]:
        """Facts of the device that formulas may read, such as ``threads``."""

    def prime(self) -> int:
        """Causes the allocations of first use; returns the bytes that stay allocated."""

    def gauge(self) -> Recorder:
        """Returns a recorder of the device's memory."""

    def forget(self) -> None:
        """Begins another test; facts of earlier tests are forgotten."""

    def tracer(self) -> Recorder:
        """Returns a recorder that lists tensors; slower, for one more run of a test that failed."""

    def empty_cache(self) -> None:
        """Gives unused segments back to the device, where the allocator keeps any."""

    def out_of_memory(self, error: BaseException) -> str | None:
        """Returns the request that failed if ``error`` says that memory ran out, else ``None``."""


def simulation_context(backend: BackendProtocol) -> AbstractContextManager[None]:
    """Returns the context that programs run in while ``backend`` measures them.

    Only a simulation has one; ``world`` is not required of a backend.
    """
    context: AbstractContextManager[None] = getattr(backend, "world", nullcontext)()
    return context


def end_run(backend: BackendProtocol, *, settled: bool) -> None:
    """Ends a run of a program: its tensors become what the run made of them, where ``settled``.

    Else what the run made of them is dropped. ``end_run`` is not required of a backend.
    """
    if (end := getattr(backend, "end_run", None)) is not None:
        end(settled=settled)
