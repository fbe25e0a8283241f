"""The memory alive at a program's peak, by line of the program, from the allocator's history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from ..tracing.tensor_origin import user_frame

#: Memory that a thread of autograd's engine allocated, which runs no line of the program.
BACKWARD = "backward"


def record() -> None:
    """Makes the allocator record its allocations, with lines, for the rest of the process."""
    torch.cuda.memory._record_memory_history("all", context="alloc", stacks="python")


def held_at_peak(index: int, peak: int) -> dict[str, int]:
    """Returns the bytes by line of the program when ``peak`` bytes were alive on a device.

    It is the last such moment. Empty if the history has none: it was not recorded, or a program
    recorded another.
    """
    traces = torch.cuda.memory._snapshot()["device_traces"]
    return at_peak(traces[index] if index < len(traces) else (), peak)


def at_peak(entries: Sequence[Mapping[str, Any]], peak: int) -> dict[str, int]:
    """Returns the bytes by line at the last moment at which ``peak`` bytes were alive."""
    alive: dict[int, Mapping[str, Any]] = {}
    total, last = 0, -1
    for position, entry in enumerate(entries):
        total += _changed(alive, entry)
        if total == peak and entry["action"] == "alloc":
            last = position
    alive.clear()
    for entry in entries[: last + 1]:
        _changed(alive, entry)
    return _by_line(alive.values())


def _changed(alive: dict[int, Mapping[str, Any]], entry: Mapping[str, Any]) -> int:
    """Follows an allocation or a free; returns the bytes that it adds."""
    if entry["action"] == "alloc":
        alive[entry["addr"]] = entry
        return int(entry["size"])
    if entry["action"] == "free_completed":
        freed = alive.pop(entry["addr"], None)
        return -int(freed["size"]) if freed else 0
    return 0


def _by_line(entries: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    held: Counter[str] = Counter()
    for entry in entries:
        frames = [(f["filename"], f["line"], f["name"]) for f in entry.get("frames", ())]
        held[user_frame(frames).where or BACKWARD] += entry["size"]
    return dict(held.most_common())
