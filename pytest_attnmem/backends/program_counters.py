"""The counters of CUDA's allocator that a program reads: what they would be without this package.

The workspaces that priming made are hidden until the program runs a product of its own, which
would have made them; so are priming's allocations and frees. A peak that is reset for a window
stays the program's. Segments that are given back before a window count as cached until the program
gives its cache back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import torch

from ..measurement.window_stack import release_inputs

#: What a number of the allocator is of: ``("allocated_bytes", "all", "peak")``.
_Path = tuple[str, ...]
_Numbers = Mapping[_Path, int]

_READS: Final = ("_cuda_memoryStats", "_accelerator_getDeviceStats")
_RESETS: Final = ("_cuda_resetPeakMemoryStats", "_accelerator_resetPeakStats")
_EMPTY: Final = "_cuda_emptyCache"
_CLEAR: Final = "_cuda_clearCublasWorkspaces"
_SEGMENTS: Final = ("segment", "all", "current")
_TAKEN: Final = ("num_device_alloc",)
_RETURNED: Final = ("num_device_free",)
_CURRENT, _PEAK = "current", "peak"


class _Device:
    """What the counters of one device show, beside the allocator's numbers."""

    def __init__(self) -> None:
        self.hidden: Counter[_Path] = Counter()
        """What this package allocated and freed; of levels and of sums."""
        self.peaks: dict[_Path, int] = {}
        """The program's peaks before the last reset of ours."""
        self.cached: Counter[_Path] = Counter()
        """The levels of segments when we gave the program's cache back."""
        self.given_back: Counter[_Path] = Counter()
        """How much we gave back, by level."""
        self.unused: set[int] = set()
        """The addresses of the hidden workspaces."""
        self.workspaces: list[Counter[_Path]] = []
        """What each hidden workspace added, the last one first."""
        self.is_ours = False
        """True while this package allocates."""

    def number(self, path: _Path, numbers: _Numbers) -> int:
        """Returns a number as the program would see it."""
        kind, level = path[-1], _of(path, _CURRENT)
        if kind == _PEAK:
            least = max(self.peaks.get(path, 0), self.number(level, numbers))
            return max(numbers[path] - self.hidden[level], least)
        if kind == _CURRENT:
            return max(numbers[path] - self.hidden[path], self.cached[path])
        taken = 0
        if kind == "allocated" and level in self.given_back:
            taken = self._taken_again(level, numbers)
        elif path == _TAKEN:
            taken = self._taken_again(_SEGMENTS, numbers)
        return numbers[path] - self.hidden[path] - taken

    def _lacking(self, level: _Path, numbers: _Numbers) -> int:
        """Returns how much of its cache the program does not have any more."""
        return max(self.cached[level] - numbers[level] + self.hidden[level], 0)

    def _taken_again(self, level: _Path, numbers: _Numbers) -> int:
        """Returns how much of what was given back the program took again."""
        return max(self.given_back[level] - self._lacking(level, numbers), 0)

    def forget_cache(self, numbers: _Numbers, *, freed: bool) -> None:
        """Counts no segment that is not there as cached; ``freed``: the program frees them."""
        for level in self.given_back:
            again = self._taken_again(level, numbers)
            lacking = self._lacking(level, numbers) if freed else 0
            self.hidden[_of(level, "allocated")] += again
            self.hidden[_of(level, "freed")] -= lacking
            if level == _SEGMENTS:
                self.hidden[_TAKEN] += again
                self.hidden[_RETURNED] -= lacking
        self.cached.clear()
        self.given_back.clear()


class ProgramCounters:
    """The counters of all devices, in place of torch's own functions."""

    def __init__(self) -> None:
        library: Any = torch._C
        self._devices: dict[int, _Device] = {}
        replaced = {
            **dict.fromkeys(_READS, self._shown),
            **dict.fromkeys(_RESETS, self._reset),
            _EMPTY: self._empty_cache,
            _CLEAR: self._clear_workspaces,
        }
        names = [name for name in replaced if hasattr(library, name)]
        self._kept = {name: getattr(library, name) for name in names}
        for name in names:
            setattr(library, name, replaced[name])
        runtime: Any = torch.cuda.cudart()
        self._memory = runtime.cudaMemGetInfo
        runtime.cudaMemGetInfo = self._free_and_total

    def statistics(self, device: int) -> dict[str, int]:
        """Returns the allocator's own numbers, as ``torch.cuda.memory_stats`` names them."""
        return {".".join(path): number for path, number in self._numbers(device).items()}

    def lower_peaks(self, device: int, numbers: _Numbers | None = None) -> None:
        """Resets the allocator's peaks; those of the program stay. ``numbers`` are the present."""
        found = self._device(device)
        if not found.is_ours:
            numbers = numbers or self._numbers(device)
            kept = {path: found.number(path, numbers) for path in numbers if path[-1] == _PEAK}
            found.peaks.update(kept)
        before, found.is_ours = found.is_ours, True
        try:
            getattr(torch._C, _RESETS[0])(device)  # a recorder may watch it
        finally:
            found.is_ours = before

    @contextmanager
    def hiding(self, device: int) -> Iterator[None]:
        """Hides what its body allocates and frees; the cache is empty before and after it."""
        self._device(device)
        self.give_back()
        with self._hidden(device, self._numbers(device)):
            yield
            self._kept[_EMPTY]()

    def hide_workspaces(self, device: int, addresses: list[int]) -> None:
        """Tells the workspaces, equally large, that are the levels hidden on a device."""
        found = self._device(device)
        new = found.hidden["allocation", "all", _CURRENT]
        found.unused = {*addresses[len(addresses) - new :]}
        found.workspaces = [_share(found.hidden, place, new) for place in reversed(range(new))]

    def show_workspace(self, address: int) -> bool:
        """Shows a workspace from now on, which the program uses; returns True if all are shown."""
        for device, found in [*self._devices.items()]:
            if address in found.unused:
                self.lower_peaks(device)
                found.unused.remove(address)
                found.hidden.subtract(found.workspaces.pop())
        return not any(found.unused for found in self._devices.values())

    def give_back(self) -> None:
        """Gives cached segments back; the program's go on to count as cached."""
        with ExitStack() as devices:
            for device in [*self._devices]:  # a recorder of all devices may read another one's
                devices.enter_context(self._as_cached(device))
            self._kept[_EMPTY]()

    @contextmanager
    def _as_cached(self, device: int) -> Iterator[None]:
        found, before = self._device(device), self._numbers(device)
        levels = {path: found.number(path, before) for path in before if _is_segments(path)}
        found.forget_cache(before, freed=False)
        with self._hidden(device, before) as after:
            yield
        found.hidden.update({path: before[path] - after[path] for path in levels})
        found.cached = Counter(levels)
        found.given_back = Counter(
            {path: level - after[path] + found.hidden[path] for path, level in levels.items()}
        )

    @contextmanager
    def _hidden(self, device: int, before: _Numbers) -> Iterator[_Numbers]:
        """Hides what its body does; gives the numbers that are there after it, from then on."""
        after: dict[_Path, int] = {}
        found = self._device(device)
        self.lower_peaks(device, before)
        found.is_ours = True
        try:
            yield after
        finally:
            after.update(self._numbers(device))
            found.hidden.update(_rise(before, after))
            self.lower_peaks(device)
            found.is_ours = False

    def _empty_cache(self) -> None:
        for device, found in [*self._devices.items()]:
            numbers = self._numbers(device)
            self.lower_peaks(device, numbers)
            found.forget_cache(numbers, freed=True)
        self._kept[_EMPTY]()

    def _clear_workspaces(self) -> None:
        """Frees the workspaces, with those that no product of the program used."""
        for device, found in [*self._devices.items()]:
            self.lower_peaks(device)
            for workspace in found.workspaces:
                levels = _levels(workspace)
                found.hidden.subtract(levels)
                found.hidden.update({_of(path, "freed"): levels[path] for path in levels})
            found.workspaces.clear()
            found.unused.clear()
        self._kept[_CLEAR]()

    def _device(self, device: int) -> _Device:
        return self._devices.setdefault(device, _Device())

    def _numbers(self, device: int) -> dict[_Path, int]:
        return _flat(self._kept[_READS[0]](device))

    def _shown(self, device: int) -> dict[str, Any]:
        if not any(found.is_ours for found in self._devices.values()):  # else we read, in a reset
            release_inputs()
        found, nested = self._device(device), self._kept[_READS[0]](device)
        numbers = _flat(nested)
        return _nested(nested, (), lambda path: found.number(path, numbers))

    def _reset(self, device: int) -> None:
        if not self._device(device).is_ours:
            self._device(device).peaks.clear()
        self._kept[_RESETS[0]](device)

    def _free_and_total(self, device: int) -> tuple[int, int]:
        free, total = self._memory(device)
        path, numbers = ("reserved_bytes", "all", _CURRENT), self._numbers(device)
        return free + numbers[path] - self._device(device).number(path, numbers), total


def program_counters() -> ProgramCounters:
    """Returns the counters that programs of this process read, which replace torch's."""
    found: Any = getattr(torch._C._cuda_memoryStats, "__self__", None)
    return found if hasattr(found, "lower_peaks") else ProgramCounters()


def _share(hidden: _Numbers, place: int, count: int) -> Counter[_Path]:
    """Returns what one of equally large workspaces adds; the first in a segment adds that too."""
    made: Counter[_Path] = Counter()
    segments = hidden[_SEGMENTS]
    before, after = (-(-at * segments // count) for at in (place, place + 1))
    for path, level in _levels(hidden).items():
        of_segments = _is_segments(path) and segments
        added = level * (after - before) // segments if of_segments else level // count
        made[path] = made[_of(path, "allocated")] = added
    made[_TAKEN] = after - before
    return made


def _of(level: _Path, kind: str) -> _Path:
    return (*level[:-1], kind)


def _levels(numbers: _Numbers) -> dict[_Path, int]:
    return {path: level for path, level in numbers.items() if path[-1] == _CURRENT}


def _is_segments(path: _Path) -> bool:
    return path[0] in ("reserved_bytes", "segment") and path[-1] == _CURRENT


def _flat(nested: Mapping[str, Any]) -> dict[_Path, int]:
    """Returns the numbers by path; the statistics are at most three names deep."""
    found: dict[_Path, int] = {}
    for name, value in nested.items():
        if isinstance(value, int):
            found[(name,)] = value
        elif isinstance(value, dict):
            for pool, numbers in value.items():
                if isinstance(numbers, int):
                    found[name, pool] = numbers
                else:
                    for metric, number in numbers.items():
                        found[name, pool, metric] = number
    return found


def _nested(
    nested: Mapping[str, Any], above: _Path, number: Callable[[_Path], int]
) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in nested.items():
        path = (*above, name)
        if isinstance(value, dict):
            made[name] = _nested(value, path, number)
        else:
            made[name] = number(path) if isinstance(value, int) else value
    return made


def _rise(before: _Numbers, after: _Numbers) -> dict[_Path, int]:
    """Returns the change of levels and of sums."""
    return {path: after[path] - before.get(path, 0) for path in after if path[-1] != _PEAK}
