"""The base class of backends that read an allocator's counters: a level, and a peak to be reset."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final, Protocol

import torch

from ..errors import BackendUnavailable
from ..measurement.protocol import Delta, Interval, Recorder
from .base import Backend
from .call_watch import CallWatch
from .warm_up import matrix_product, storage

#: Metric → the counter that holds it, as torch's statistics name it.
COUNTERS: Mapping[str, str] = MappingProxyType(
    {"requested": "requested_bytes", "allocated": "allocated_bytes", "reserved": "reserved_bytes"}
)

#: The functions that ``torch.cuda.reset_peak_memory_stats`` and its twin for accelerators call.
RESETS: Final = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")


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
        self._resets = reset_watch()

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
            out_of_memory="an allocation was refused" if refused else "",
        )

    def _save_peaks(self, statistics: Mapping[str, Any]) -> None:
        for counter in COUNTERS.values():
            peak = _read(statistics, counter, "peak")
            if peak is not None:
                self._peaks[counter] = max(peak, self._peaks.get(counter, 0))


def reset_watch() -> CallWatch:
    """Returns what notices that a program itself resets peaks, as those that measure by hand do."""
    return CallWatch((torch._C, name) for name in RESETS)


def _read(statistics: Mapping[str, Any], counter: str, kind: str) -> int | None:
    value = statistics.get(f"{counter}.all.{kind}")
    return None if value is None else int(value)


def _delta(
    before: Mapping[str, Any], after: Mapping[str, Any], counter: str, peak: int | None
) -> Delta | None:
    level = _read(after, counter, "current")
    if level is None or peak is None:
        return None
    start = _level(before, counter)
    return Delta(max(peak - start, 0), level - start)


def _increase(before: Mapping[str, Any], after: Mapping[str, Any], counter: str) -> int:
    return int(after.get(counter, 0)) - int(before.get(counter, 0))


class CounterBackend(Backend):
    """One device of ``torch.cuda`` or ``torch.accelerator``."""

    _exercise = staticmethod(matrix_product)
    _hold = staticmethod(storage)

    def __init__(self, api: Any, index: int) -> None:
        self._api = api
        self._index = index

    @property
    def uncounted(self) -> str:
        """Returns why requested bytes are not counted; "" if they are."""
        return ""

    def gauge(self) -> Recorder:
        """Returns a recorder of the allocator's counters."""
        return CounterRecorder(self, self.uncounted)

    def check_counters(self) -> None:
        """Checks that the counters follow a block of known size, on a device that is ready.

        Each opening of the backend checks, on every torch: the protocol depends on the allocator
        too, which a program can exchange. It takes less than 1 ms and leaves nothing allocated.

        Raises:
            BackendUnavailable: they do not; the text says what they did.
        """
        metrics = ("allocated",) if self.uncounted else ("requested", "allocated")
        if fault := fault_of_counters(self, partial(self._hold, self.device), metrics):
            raise BackendUnavailable(
                f"backend {self.name!r} cannot measure here: on torch {torch.__version__} {fault}"
            )

    def statistics(self) -> Mapping[str, Any]:
        """Returns every counter of the device."""
        statistics: Mapping[str, Any] = self._api.memory_stats(self._index)
        return statistics

    def _allocated(self) -> int:
        return _level(self.statistics(), "allocated_bytes")

    def reset_peaks(self) -> None:
        """Lowers every peak to its current level."""
        self._api.reset_peak_memory_stats(self._index)

    def synchronize(self) -> None:
        """Waits for all streams of the device."""
        self._api.synchronize(self._index)

    def empty_cache(self) -> None:
        """Gives cached segments back to the device."""
        self._api.empty_cache()


#: Bytes of the block; no allocator rounds to a multiple of them.
_SIZE: Final = 1000
#: The most that an allocator adds to a block: a small segment of CUDA's.
_ROUNDING: Final = 2 << 20
#: Another thread may allocate meanwhile; a fault shows each time.
_ATTEMPTS: Final = 3


def fault_of_counters(
    allocator: Allocator, hold: Callable[[int], object], metrics: Iterable[str]
) -> str:
    """Returns what the counters of ``metrics`` do wrong with a block of known size, or "".

    ``hold`` allocates a block, which lives as long as the object that it returns. An allocator
    without statistics has no fault: each window says that it keeps none.
    """
    counters, fault = {metric: COUNTERS[metric] for metric in metrics}, ""
    for _ in range(_ATTEMPTS):
        fault = next(_faults(allocator, hold, counters), "")
        if not fault:
            break
    return fault


def _faults(
    allocator: Allocator, hold: Callable[[int], object], counters: Mapping[str, str]
) -> Iterator[str]:
    allocator.synchronize()
    allocator.reset_peaks()
    before = allocator.statistics()
    block: list[object] = [hold(_SIZE)]
    held = allocator.statistics()
    block.clear()
    freed = allocator.statistics()
    allocator.reset_peaks()
    reset = allocator.statistics()
    for metric, counter in counters.items():
        if not before:
            return
        start, peak = _level(before, counter), f"the peak of {counter}"
        rise = _level(held, counter) - start
        most = _SIZE if metric == "requested" else _SIZE + _ROUNDING
        if _peak(before, counter) != start:
            yield f"{peak} could not be reset"
        if not _SIZE <= rise <= most:
            yield f"{counter} rose by {rise:,} B for a block of {_SIZE:,} B"
        if _peak(held, counter) != start + rise:
            yield f"{peak} rose by {_peak(held, counter) - start:,} B, and its level by {rise:,} B"
        if _level(freed, counter) != start:
            fall = start + rise - _level(freed, counter)
            yield f"{counter} fell by {fall:,} B when {rise:,} B were freed"
        if _peak(freed, counter) != start + rise:
            yield f"{peak} did not stay when the block was freed"
        if _peak(reset, counter) != start:
            yield f"{peak} could not be reset"


def _level(statistics: Mapping[str, Any], counter: str) -> int:
    return _read(statistics, counter, "current") or 0


def _peak(statistics: Mapping[str, Any], counter: str) -> int:
    return _read(statistics, counter, "peak") or 0
