"""Any accelerator that reports memory through ``torch.accelerator``: XPU, MPS, and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..errors import BackendUnavailable
from ..measurement.protocol import Recorder
from ..nulldevice.launch import present
from .allocator_counters import CounterGauge
from .tracing.dispatch_tracker import Tracker, raised_at
from .warm_up import matrix_product

#: What a gauge calls; torch has all of it from 2.9 on.
_NEEDED = ("memory_stats", "reset_peak_memory_stats", "synchronize", "empty_cache")


class Accelerator:
    """One device of the accelerator that torch was built for."""

    name = "accelerator"
    computes = True

    def __init__(
        self,
        kind: str,
        index: int,
        accelerator: Any,
        exercise: Callable[[str, torch.dtype], None] = matrix_product,
    ) -> None:
        self._accelerator = accelerator
        self._exercise = exercise
        self._index = index
        self.kinds = (kind, "accelerator")
        self.device = f"{kind}:{index}"

    @property
    def symbols(self) -> Mapping[str, int]:
        """None: formulas read nothing of the device."""
        return {}

    def prime(self) -> int:
        """Bring on what the libraries allocate on first use."""
        before = self.statistics().get("allocated_bytes.all.current", 0)
        self._exercise(self.device, torch.float32)
        self.synchronize()
        return int(self.statistics().get("allocated_bytes.all.current", 0) - before)

    def gauge(self) -> Recorder:
        """The allocator's counters."""
        uncounted = ""
        if "requested_bytes.all.current" not in self.statistics():
            uncounted = f"requested bytes are not counted on {self.device}; metric='allocated' is"
        return CounterGauge(self, uncounted)

    def forget(self) -> None:
        """Nothing: counters remember nothing."""

    def tracer(self) -> Recorder:
        """The dispatcher's view: tensors with names, and no scratch inside kernels."""
        return Tracker()

    def out_of_memory(self, error: BaseException) -> str | None:
        """What was asked for, when the allocator could not."""
        if not isinstance(error, torch.OutOfMemoryError):
            return None
        first = (str(error).splitlines() or ["an allocation was refused"])[0]
        return first[:160] + raised_at(error)

    def statistics(self) -> Mapping[str, Any]:
        """Every counter of the device."""
        statistics: Mapping[str, Any] = self._accelerator.memory_stats(self._index)
        return statistics

    def reset_peaks(self) -> None:
        """Bring every peak down to its current level."""
        self._accelerator.reset_peak_memory_stats(self._index)

    def synchronize(self) -> None:
        """Wait for all streams of the device."""
        self._accelerator.synchronize(self._index)

    def empty_cache(self) -> None:
        """Give cached segments back to the device."""
        self._accelerator.empty_cache()


def open_backend(argument: str, accelerator: Any = None) -> Accelerator:
    """Return the accelerator's device of that number (``1``, ``xpu:1``), or the current one.

    Raises:
        BackendUnavailable: there is none, or it does not report memory; the text says why.
    """
    accelerator = accelerator or getattr(torch, "accelerator", None)
    number = check(argument, accelerator)
    index = int(number) if number else accelerator.current_device_index()
    return Accelerator(accelerator.current_accelerator().type, index, accelerator)


def check(argument: str, accelerator: Any = None) -> str:
    """Return the device number in *argument*, once it is known to exist; no device is used.

    Raises:
        BackendUnavailable: the device does not exist or does not report memory; the text says why.
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


def _unavailable(why: str) -> BackendUnavailable:
    return BackendUnavailable(f"backend 'accelerator' cannot measure here: {why}")
