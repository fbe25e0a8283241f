"""What ``torch.cuda.memory_stats`` returns on a simulated device."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import CannotSimulate
from .program_errors import at

if TYPE_CHECKING:
    from .simulated_device import Device


class MemoryStats(OrderedDict[str, int]):
    """The counters that are simulated, by PyTorch's names; others are refused, never 0."""

    def __init__(self, device: Device, refused: Callable[[str], CannotSimulate]) -> None:
        super().__init__()
        self._refused = refused
        statistics, peaks = device.statistics, device.peaks()
        self["num_alloc_retries"] = statistics.alloc_retries
        self["num_ooms"] = statistics.ooms
        self["num_oom_rejections"] = statistics.oom_rejections
        self["num_device_alloc"] = statistics.device_allocs
        self["num_device_free"] = statistics.device_frees
        for kind in ("requested", "allocated", "active", "reserved", "inactive_split"):
            level = getattr(statistics, kind)
            self[f"{kind}_bytes.all.current"] = level.current
            self[f"{kind}_bytes.all.peak"] = peaks.get(kind, level.peak)

    def __missing__(self, name: str) -> int:
        raise self._refused(f"torch.cuda.memory_stats()[{name!r}]{at()} cannot be simulated")

    def get(self, name: str, default: Any = None) -> Any:
        """Returns a counter; the default would stand for one that is refused, so it is not used."""
        return self[name]

    def nested(self) -> dict[str, Any]:
        """Returns what ``torch.cuda.memory_stats_as_nested_dict`` returns of these counters."""
        found: dict[str, Any] = {}
        for name, value in self.items():
            *path, last = name.split(".")
            inner = found
            for part in path:
                inner = inner.setdefault(part, {})
            inner[last] = value
        return found
