"""Devices whose allocator keeps counters: a level, and a peak that can be reset."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from . import Rise, Stretch

#: Metric → the counter that holds it, as torch's statistics name it.
COUNTERS: Mapping[str, str] = MappingProxyType(
    {"requested": "requested_bytes", "allocated": "allocated_bytes", "reserved": "reserved_bytes"}
)


class Allocator(Protocol):
    """The part of ``torch.cuda`` or ``torch.accelerator`` that a gauge needs, for one device."""

    def statistics(self) -> Mapping[str, Any]:
        """``memory_stats``: flat, ``requested_bytes.all.peak``; empty where nothing is counted."""

    def reset_peaks(self) -> None:
        """Bring every peak down to its current level."""

    def synchronize(self) -> None:
        """Wait for all streams."""

    def empty_cache(self) -> None:
        """Give cached segments back."""


class CounterGauge:
    """Reads counters at both ends of a stretch, with the device idle."""

    def __init__(self, allocator: Allocator, metric: str, uncounted: str = "") -> None:
        self._allocator = allocator
        self._uncounted = uncounted
        # Segments left by earlier tests would hide that this one needs them.
        self._empty_first = metric == "reserved"

    def start(self) -> None:
        """Reset the peaks, and see that it took."""
        self._allocator.synchronize()
        if self._empty_first:
            self._allocator.empty_cache()
            self._empty_first = False
        self._allocator.reset_peaks()
        self._before = self._allocator.statistics()
        self._problem: str | None = None
        for counter in COUNTERS.values():
            if _read(self._before, counter, "peak") != _read(self._before, counter, "current"):
                self._problem = f"the peak of {counter} could not be reset"

    def stop(self) -> Stretch:
        """What the counters did since."""
        self._allocator.synchronize()
        before, after = self._before, self._allocator.statistics()
        rises = {metric: _rise(before, after, counter) for metric, counter in COUNTERS.items()}
        if not after:
            self._problem = self._problem or "the allocator of the device keeps no statistics"
        made = _read(after, "allocation", "allocated") or 0
        allocations = made - (_read(before, "allocation", "allocated") or 0)
        if not allocations and any(rise and (rise.high or rise.net) for rise in rises.values()):
            allocations = 1  # a device that counts bytes, and not how often
        if self._uncounted:
            rises["requested"] = None  # the counter is there, and reads zero
        return Stretch(
            rises["requested"],
            rises["allocated"],
            rises["reserved"],
            allocations,
            self._problem,
            self._uncounted,
        )


def _read(statistics: Mapping[str, Any], counter: str, what: str) -> int | None:
    value = statistics.get(f"{counter}.all.{what}")
    return None if value is None else int(value)


def _rise(before: Mapping[str, Any], after: Mapping[str, Any], counter: str) -> Rise | None:
    level, peak = _read(after, counter, "current"), _read(after, counter, "peak")
    if level is None or peak is None:
        return None
    start = _read(before, counter, "current") or 0
    return Rise(max(peak - start, 0), level - start)
