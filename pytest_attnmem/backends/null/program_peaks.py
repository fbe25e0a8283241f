"""The peaks of a program that may reset them, as training loops do to log each step's."""

from __future__ import annotations

import torch

from ..allocator_counters import COUNTERS, ResetWatch


class ProgramPeaks:
    """The peaks of each device since the start of the program."""

    def __init__(self) -> None:
        self._highest: dict[str, dict[str, int]] = {}
        self._resets = ResetWatch()
        self.uncounted = ""
        """The reason why there are no peaks; empty if they are counted."""

    def watch(self) -> None:
        """Keeps the peaks before the program resets them, for the rest of the process."""
        self._resets.start(self._save)

    def read(self) -> dict[str, dict[str, int]]:
        """Returns the peaks in bytes, by device and kind, of the devices that were used."""
        self._save()
        return self._highest

    def _save(self) -> None:
        if not torch.cuda.is_initialized():
            return
        for index in range(torch.cuda.device_count()):
            try:
                statistics = torch.cuda.memory_stats(index)
            except RuntimeError:  # of an allocator of the program's own
                allocator = torch.cuda.get_allocator_backend()
                self.uncounted = f"the program's own allocator ({allocator}) counts no memory"
                return
            if not statistics.get("reserved_bytes.all.peak"):
                continue
            highest = self._highest.setdefault(f"cuda:{index}", {})
            for counter in COUNTERS.values():
                peak = int(statistics[f"{counter}.all.peak"])
                highest[counter] = max(peak, highest.get(counter, 0))
