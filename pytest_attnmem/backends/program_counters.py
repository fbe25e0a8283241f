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
from .counter_backend import RESETS

_Numbers = Mapping[str, int]
"""By name, as in ``torch.cuda.memory_stats``: ``allocated_bytes.all.peak``."""

_READS: Final = ("_cuda_memoryStats", "_accelerator_getDeviceStats")
_EMPTY: Final = "_cuda_emptyCache"
_CLEAR: Final = "_cuda_clearCublasWorkspaces"
_SEGMENTS: Final = "segment.all.current"
_TAKEN: Final = "num_device_alloc"
_RETURNED: Final = "num_device_free"
_CURRENT, _PEAK, _ALLOCATED, _FREED = "current", "peak", "allocated", "freed"


class _Statistics(Mapping[str, int]):
    """The allocator's numbers by name, of which most windows ask a few."""

    def __init__(self, nested: Mapping[str, Any]) -> None:
        self._nested = nested

    def __getitem__(self, name: str) -> int:
        found: Any = self._nested
        for part in name.split("."):
            found = found[part]
        return int(found)

    def __iter__(self) -> Iterator[str]:
        return _names(self._nested, "")

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __bool__(self) -> bool:
        return any(True for _ in self)  # each window asks


class _Device:
    """What the counters of one device show, beside the allocator's numbers."""

    def __init__(self) -> None:
        self.hidden: Counter[str] = Counter()
        """What this package allocated and freed; of levels and of sums."""
        self.peaks: dict[str, int] = {}
        """The program's peaks before the last reset of ours."""
        self.levels: dict[str, str] = {}
        """The name of each peak → that of its level."""
        self.cached: Counter[str] = Counter()
        """The levels of segments when we gave the program's cache back."""
        self.given_back: Counter[str] = Counter()
        """How much we gave back, by level."""
        self.unused: set[int] = set()
        """The addresses of the hidden workspaces."""
        self.workspaces: list[Counter[str]] = []
        """What each hidden workspace added, the last one first."""
        self.is_ours = False
        """True while this package allocates."""

    def number(self, name: str, numbers: _Numbers) -> int:
        """Returns a number as the program would see it."""
        kind, level = _kind(name), _of(name, _CURRENT)
        if kind == _PEAK:
            return self._peak(name, level, numbers)
        if kind == _CURRENT:
            return max(numbers[name] - self.hidden[name], self.cached[name])
        taken = 0
        if kind == _ALLOCATED and level in self.given_back:
            taken = self._taken_again(level, numbers)
        elif name == _TAKEN:
            taken = self._taken_again(_SEGMENTS, numbers)
        return numbers[name] - self.hidden[name] - taken

    def _peak(self, name: str, level: str, numbers: _Numbers) -> int:
        """Returns a peak, which is at least the level."""
        risen = numbers[name] - self.hidden.get(level, 0)
        return max(risen, self.peaks.get(name, 0), self.cached.get(level, 0))

    def keep_peaks(self, numbers: _Numbers) -> None:
        """Keeps the peaks as the program sees them, before they are reset."""
        if not self.levels:
            self.levels = {name: _of(name, _CURRENT) for name in numbers if _kind(name) == _PEAK}
        for name, level in self.levels.items():
            self.peaks[name] = self._peak(name, level, numbers)

    def _lacking(self, level: str, numbers: _Numbers) -> int:
        """Returns how much of its cache the program does not have any more."""
        return max(self.cached[level] - numbers[level] + self.hidden[level], 0)

    def _taken_again(self, level: str, numbers: _Numbers) -> int:
        """Returns how much of what was given back the program took again."""
        return max(self.given_back[level] - self._lacking(level, numbers), 0)

    def forget_cache(self, numbers: _Numbers, *, freed: bool) -> None:
        """Counts no segment that is not there as cached; ``freed``: the program frees them."""
        for level in self.given_back:
            again = self._taken_again(level, numbers)
            lacking = self._lacking(level, numbers) if freed else 0
            self.hidden[_of(level, _ALLOCATED)] += again
            self.hidden[_of(level, _FREED)] -= lacking
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
            **dict.fromkeys(RESETS, self._reset),
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

    def statistics(self, device: int) -> _Numbers:
        """Returns the allocator's own numbers, as ``torch.cuda.memory_stats`` names them."""
        return _Statistics(self._kept[_READS[0]](device))

    def lower_peaks(self, device: int, numbers: _Numbers | None = None) -> None:
        """Resets the allocator's peaks; those of the program stay. ``numbers`` are the present."""
        found = self._device(device)
        if not found.is_ours:
            found.keep_peaks(self.statistics(device) if numbers is None else numbers)
        before, found.is_ours = found.is_ours, True
        try:
            getattr(torch._C, RESETS[0])(device)  # a recorder may watch it
        finally:
            found.is_ours = before

    @contextmanager
    def hiding(self, device: int) -> Iterator[None]:
        """Hides what its body allocates and frees; the cache is empty before and after it."""
        self._device(device)
        self.give_back()
        with self._hidden(device, self.statistics(device)):
            yield
            self._kept[_EMPTY]()

    def hide_workspaces(self, device: int, addresses: list[int]) -> None:
        """Tells the workspaces, equally large, that are the levels hidden on a device."""
        found = self._device(device)
        new = found.hidden["allocation.all.current"]
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
        present = {device: self.statistics(device) for device in self._devices}
        if not any(_may_cache(numbers) for numbers in present.values()):
            return
        with ExitStack() as devices:
            for device, numbers in present.items():  # a recorder of all may read another one's
                devices.enter_context(self._as_cached(device, numbers))
            self._kept[_EMPTY]()

    @contextmanager
    def _as_cached(self, device: int, before: _Numbers) -> Iterator[None]:
        found = self._device(device)
        levels = {name: found.number(name, before) for name in before if _is_segments(name)}
        found.forget_cache(before, freed=False)
        with self._hidden(device, before) as after:
            yield
        found.hidden.update({name: before[name] - after[name] for name in levels})
        found.cached = Counter(levels)
        found.given_back = Counter(
            {name: level - after[name] + found.hidden[name] for name, level in levels.items()}
        )

    @contextmanager
    def _hidden(self, device: int, before: _Numbers) -> Iterator[_Numbers]:
        """Hides what its body does; gives the numbers that are there after it, from then on."""
        after: dict[str, int] = {}
        found = self._device(device)
        self.lower_peaks(device, before)
        found.is_ours = True
        try:
            yield after
        finally:
            after.update(self.statistics(device))
            found.hidden.update(_rise(before, after))
            self.lower_peaks(device)
            found.is_ours = False

    def _empty_cache(self) -> None:
        for device, found in [*self._devices.items()]:
            numbers = self.statistics(device)
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
                found.hidden.update({_of(name, _FREED): levels[name] for name in levels})
            found.workspaces.clear()
            found.unused.clear()
        self._kept[_CLEAR]()

    def _device(self, device: int) -> _Device:
        return self._devices.setdefault(device, _Device())

    def _shown(self, device: int) -> dict[str, Any]:
        if not any(found.is_ours for found in self._devices.values()):  # else we read, in a reset
            release_inputs()
        found, nested = self._device(device), self._kept[_READS[0]](device)
        numbers = _Statistics(nested)
        return _nested(nested, "", lambda name: found.number(name, numbers))

    def _reset(self, device: int) -> None:
        if not self._device(device).is_ours:
            self._device(device).peaks.clear()
        self._kept[RESETS[0]](device)

    def _free_and_total(self, device: int) -> tuple[int, int]:
        free, total = self._memory(device)
        name, numbers = "reserved_bytes.all.current", self.statistics(device)
        return free + numbers[name] - self._device(device).number(name, numbers), total


def program_counters() -> ProgramCounters:
    """Returns the counters that programs of this process read, which replace torch's."""
    found: Any = getattr(torch._C._cuda_memoryStats, "__self__", None)
    return found if hasattr(found, "lower_peaks") else ProgramCounters()


def _share(hidden: _Numbers, place: int, count: int) -> Counter[str]:
    """Returns what one of equally large workspaces adds; the first in a segment adds that too."""
    made: Counter[str] = Counter()
    segments = hidden[_SEGMENTS]
    before, after = (-(-at * segments // count) for at in (place, place + 1))
    for name, level in _levels(hidden).items():
        of_segments = _is_segments(name) and segments
        added = level * (after - before) // segments if of_segments else level // count
        made[name] = made[_of(name, _ALLOCATED)] = added
    made[_TAKEN] = after - before
    return made


def _of(name: str, kind: str) -> str:
    return f"{name[: name.rfind('.') + 1]}{kind}"


def _kind(name: str) -> str:
    return name[name.rfind(".") + 1 :]


def _levels(numbers: _Numbers) -> dict[str, int]:
    return {name: level for name, level in numbers.items() if _kind(name) == _CURRENT}


def _is_segments(name: str) -> bool:
    return name.startswith(("reserved_bytes.", "segment.")) and _kind(name) == _CURRENT


def _may_cache(numbers: _Numbers) -> bool:
    """Returns False if each segment is partly in use, and nothing waits to be freed.

    Pages of expandable segments and blocks that wait for a stream are in neither number.
    """
    held = ("allocated_bytes.all.current", "inactive_split_bytes.all.current")
    reserved = numbers.get("reserved_bytes.all.current")  # None where nothing is counted
    return reserved != sum(numbers.get(name, 0) for name in held)


def _names(nested: Mapping[str, Any], above: str) -> Iterator[str]:
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from _names(value, f"{above}{name}.")
        elif isinstance(value, int):
            yield above + name


def _nested(nested: Mapping[str, Any], above: str, number: Callable[[str], int]) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, value in nested.items():
        if isinstance(value, dict):
            made[name] = _nested(value, f"{above}{name}.", number)
        else:
            made[name] = number(above + name) if isinstance(value, int) else value
    return made


def _rise(before: _Numbers, after: _Numbers) -> dict[str, int]:
    """Returns the change of levels and of sums."""
    return {name: after[name] - before.get(name, 0) for name in after if _kind(name) != _PEAK}
