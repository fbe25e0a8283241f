"""Keeps this plugin's frames out of the stacks that PyTorch's allocator records.

An operator passes the plugin on its way to its kernel (``noting.py``), so each stack would begin
with the same frames, and tools that group by the first one would show one line for everything.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, Final

import torch

from ... import nulldevice

_OURS: Final = tuple(str(Path(str(file)).parent) for file in (__file__, nulldevice.__file__))
#: The file of the functions by which the plugin calls an operator.
_CALLS: Final = str(torch._ops.__file__)

Frames = list[Mapping[str, Any]]


def hide_frames() -> None:
    """Removes the frames from each snapshot of the allocator, for the rest of the process."""
    library: Any = torch._C
    take = library._cuda_memorySnapshot

    @wraps(take)
    def taken(*args: Any) -> dict[str, Any]:
        snapshot: dict[str, Any] = take(*args)
        known: dict[int, Frames] = {}  # allocations at one line share a list
        for holder in _holders(snapshot):
            frames = holder["frames"]
            holder["frames"] = known.setdefault(id(frames), of_the_program(frames))
        return snapshot

    library._cuda_memorySnapshot = taken


def of_the_program(frames: Iterable[Mapping[str, Any]]) -> Frames:
    """Returns a stack, from the innermost frame, without the plugin's and those of its calls."""
    kept: Frames = []
    calls: Frames = []  # of an operator, and of C++: the next frame tells whose they are
    for frame in frames:
        name = frame["filename"]
        if name.startswith(_OURS):
            kept += [call for call in calls if call["filename"] != _CALLS]
            calls = []
        elif name == _CALLS or (calls and not name.endswith(".py")):
            calls.append(frame)
        else:
            kept += [*calls, frame]
            calls = []
    return kept + calls


def _holders(snapshot: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """Yields the segments, the blocks and the events that have a stack."""
    for segment in snapshot["segments"]:
        yield from (one for one in (segment, *segment["blocks"]) if "frames" in one)
    for trace in snapshot.get("device_traces", ()):
        yield from (event for event in trace if "frames" in event)
