"""Devices whose allocator keeps counters: a level, and a peak that can be reset."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol

import torch

from ..measurement.protocol import Delta, Interval

#: Metric → the counter that holds it, as torch's statistics name it.
COUNTERS: Mapping[str, str] = MappingProxyType(
    {"requested": "requested_bytes", "allocated": "allocated_bytes", "reserved": "reserved_bytes"}
)

#: The functions that ``torch.cuda.reset_peak_memory_stats`` and its twin for accelerators call.
_RESETS = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")


class Allocator(Protocol):
    """The part of ``torch.cuda`` or ``torch.accelerator`` that a recorder needs, for one device."""

    def statistics(self) -> Mapping[str, Any]:
        """``memory_stats``: flat, ``requested_bytes.all.peak``; empty where nothing is counted."""

    def reset_peaks(self) -> None:
        """Lowers every peak to its current level."""

    def synchronize(self) -> None:
        """Waits for all streams."""


class CounterRecorder:
    """Reads counters at both ends of an interval, with the device idle."""

    def __init__(self, allocator: Allocator, uncounted: str = "") -> None:
        self._allocator = allocator
        self._uncounted = uncounted
        self._resets = ResetWatch()

    def start(self) -> None:
        """Resets the peaks, and checks that they are reset."""
        self._allocator.synchronize()
        self._allocator.reset_peaks()
        self._before = self._allocator.statistics()
        self._problem: str | None = None
        for counter in COUNTERS.values():
            if _read(self._before, counter, "peak") != _read(self._before, counter, "current"):
                self._problem = f"the peak of {counter} could not be reset"
        self._peaks: dict[str, int] = {}
        self._resets.start(lambda: self._save_peaks(self._allocator.statistics()))

    def stop(self) -> Interval:
        """Returns the change of each counter since ``start``."""
        self._allocator.synchronize()
        self._resets.stop()
        before, after = self._before, self._allocator.statistics()
        self._save_peaks(after)
        deltas = {
            metric: _delta(before, after, counter, self._peaks.get(counter))
            for metric, counter in COUNTERS.items()
        }
        if not after:
            self._problem = self._problem or "the allocator of the device keeps no statistics"
        allocations = _increase(before, after, "allocation.all.allocated")
        changed = any(delta and (delta.peak or delta.final) for delta in deltas.values())
        if changed and not allocations:
            allocations = 1  # the device counts bytes, but not allocations
        if self._uncounted:
            deltas["requested"] = None  # the counter exists, and reads zero
        refused = _increase(before, after, "num_ooms")
        return Interval(
            deltas["requested"],
            deltas["allocated"],
            deltas["reserved"],
            allocations,
            self._problem,
            self._uncounted,
            out_of_memory="an allocation was refused, and the error caught" if refused else "",
        )

    def _save_peaks(self, statistics: Mapping[str, Any]) -> None:
        for counter in COUNTERS.values():
            peak = _read(statistics, counter, "peak")
            if peak is not None:
                self._peaks[counter] = max(peak, self._peaks.get(counter, 0))


class ResetWatch:
    """Notices that a program itself resets peaks, as those that measure by hand do."""

    def start(self, save: Callable[[], None]) -> None:
        """Calls ``save`` before peaks are reset, from now on."""

        def watched(reset: Callable[..., Any]) -> Callable[..., Any]:
            def resetting(*args: Any) -> Any:
                save()
                return reset(*args)

            return resetting

        self._kept = {name: getattr(torch._C, name) for name in _RESETS if hasattr(torch._C, name)}
        for name, reset in self._kept.items():
            setattr(torch._C, name, watched(reset))

    def stop(self) -> None:
        """Stops watching."""
        for name, reset in self._kept.items():
            setattr(torch._C, name, reset)


def _read(statistics: Mapping[str, Any], counter: str, kind: str) -> int | None:
    value = statistics.get(f"{counter}.all.{kind}")
    return None if value is None else int(value)


def _delta(
    before: Mapping[str, Any], after: Mapping[str, Any], counter: str, peak: int | None
) -> Delta | None:
    level = _read(after, counter, "current")
    if level is None or peak is None:
        return None
    start = _read(before, counter, "current") or 0
    return Delta(max(peak - start, 0), level - start)


def _increase(before: Mapping[str, Any], after: Mapping[str, Any], counter: str) -> int:
    return int(after.get(counter, 0)) - int(before.get(counter, 0))
