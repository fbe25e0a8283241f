"""The two stand-ins that the gate compares: today's simulated device, and the device."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_attnmem.backends.registry import open_backend

ON = "A100-80GB"
BACKENDS = ("simulated", "device")


class StandIn:
    """A backend, emptied before each row as a new process would be."""

    def __init__(self, name: str, on: str = ON) -> None:
        self.backend: Any = open_backend(f"{name}:{on}")
        self.is_device = name == "device"

    def restart(self, *, primed: bool = True) -> None:
        """Empties the device, but for the workspaces of libraries if ``primed``."""
        if not self.is_device:
            self.backend.forget(primed=primed)
        self.backend.name_device()
        if not self.is_device:
            return
        self.backend.simulation.restart()
        if primed:
            self.backend.prime()

    def peaks(self) -> list[int]:
        """Returns the peaks of the window so far: requested and allocated."""
        memory = self.backend.simulation if self.is_device else self.backend._simulation
        interval = memory.device.interval(None)
        return [interval.requested.peak, interval.allocated.peak]

    def offset(self) -> int:
        """Returns the numbers that the device's generator has drawn."""
        if self.is_device:
            return int(self.backend.simulation.offset)
        return int(self.backend._simulation.values.storages.numbers.default.offset)

    def run(self, work: Callable[[], Any]) -> tuple[list[int], str]:
        """Returns the peaks, retained bytes and drawn numbers of a program, and what ails them."""
        gauge = self.backend.gauge()
        with self.backend.world(), collected_after():
            gauge.start()
            try:
                kept = work()
                gc.collect()
            finally:
                seen = gauge.stop()
            offset = self.offset()
            del kept
        numbers = [
            *(seen.requested.peak, seen.allocated.peak, seen.reserved.peak, seen.requested.final),
            offset,
        ]
        return numbers, seen.problem or ""


@contextmanager
def collected_after() -> Iterator[None]:
    """Collects no garbage in the body: PyTorch's own Python code makes cycles that hold tensors."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
