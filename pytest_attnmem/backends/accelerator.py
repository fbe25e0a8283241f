"""Any accelerator that reports memory through ``torch.accelerator``: XPU, MPS, and others."""

from __future__ import annotations

from typing import Any

import torch

from ..errors import DeviceMissing, first_line
from ..nulldevice.launch import present
from .counter_backend import CounterBackend
from .tracing.dispatch_tracker import raised_at

#: The functions that a recorder calls; torch has all of them from 2.9 on.
_NEEDED = ("memory_stats", "reset_peak_memory_stats", "synchronize", "empty_cache")


class Accelerator(CounterBackend):
    """One device of the accelerator that torch was built for."""

    name = "accelerator"

    def __init__(self, kind: str, index: int, accelerator: Any) -> None:
        super().__init__(accelerator, index)
        self.device = f"{kind}:{index}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """Returns ``xpu`` and ``accelerator``."""
        return (self.device.partition(":")[0], self.name)

    def prime(self) -> int:
        """Causes the libraries' allocations of first use; returns the bytes that stay."""
        before = self._allocated()
        self._exercise(self.device, torch.float32)
        self.synchronize()
        self.check_counters()
        return self._allocated() - before

    @property
    def uncounted(self) -> str:
        """Returns why requested bytes are not counted, where the device counts none."""
        if "requested_bytes.all.current" in self.statistics():
            return ""
        return f"requested bytes are not counted on {self.device}; metric='allocated' is"

    def out_of_memory(self, error: BaseException) -> str | None:
        """Returns the first line of the allocator's error, and the line of the program."""
        if not isinstance(error, torch.OutOfMemoryError):
            return None
        return first_line(error)[:160] + raised_at(error)


def open_backend(argument: str, accelerator: Any = None) -> Accelerator:
    """Returns the accelerator's device of that number (``1``, ``xpu:1``), or the current one.

    Raises:
        DeviceMissing: no such device reports memory; the text says why.
    """
    accelerator = accelerator or getattr(torch, "accelerator", None)
    number = check(argument, accelerator)
    index = int(number) if number else accelerator.current_device_index()
    return Accelerator(accelerator.current_accelerator().type, index, accelerator)


def check(argument: str, accelerator: Any = None) -> str:
    """Returns the device number in *argument* after checking that it exists; uses no device.

    Raises:
        DeviceMissing: the device does not exist or does not report memory; the text says why.
    """
    accelerator = accelerator or getattr(torch, "accelerator", None)
    missing = [name for name in _NEEDED if not hasattr(accelerator, name)]
    if missing:
        raise _unavailable(f"torch {torch.__version__} lacks torch.accelerator.{missing[0]}")
    if null := present():
        raise _unavailable(f"the device is null:{null}, which computes nothing")
    if not accelerator.is_available():
        raise _unavailable("torch sees no accelerator")
    kind = accelerator.current_accelerator().type
    wanted, _, number = argument.rpartition(":")
    if argument and not argument.isdecimal() and not number.isdecimal():
        wanted, number = argument, ""
    if wanted and wanted != kind:
        raise _unavailable(f"the device here is {kind!r}, not {wanted!r}")
    count = accelerator.device_count()
    if number and int(number) >= count:
        raise _unavailable(f"it has no device {number}; expected a number below {count}")
    return number


def _unavailable(why: str) -> DeviceMissing:
    return DeviceMissing(f"backend 'accelerator' cannot measure here: {why}")
