"""The base class of backends that read an allocator's counters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import torch

from ..errors import BackendUnavailable
from ..measurement.protocol import Recorder
from .allocator_counters import COUNTERS, Allocator, CounterRecorder
from .base import Backend
from .warm_up import matrix_product, storage


class CounterBackend(Backend):
    """One device of ``torch.cuda`` or ``torch.accelerator``."""

    def __init__(
        self,
        api: Any,
        index: int,
        exercise: Callable[[str, torch.dtype], None] = matrix_product,
        hold: Callable[[str, int], object] = storage,
    ) -> None:
        self._api = api
        self._index = index
        self._exercise = exercise
        self._hold = hold

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
    return int(statistics.get(f"{counter}.all.current", 0))


def _peak(statistics: Mapping[str, Any], counter: str) -> int:
    return int(statistics.get(f"{counter}.all.peak", 0))
