"""The base class of backends that read an allocator's counters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch

from ..errors import BackendUnavailable
from ..measurement.protocol import Recorder
from .allocator_counters import CounterRecorder
from .base import Backend
from .counter_check import fault_of_counters
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
