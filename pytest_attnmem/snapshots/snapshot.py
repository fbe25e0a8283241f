"""The events and blocks of a snapshot of PyTorch's CUDA allocator.

The format is that of ``torch.cuda.memory._snapshot`` (torch/cuda/memory.py and
torch/csrc/cuda/memory_snapshot.cpp): ``{"segments": […], "device_traces": [[…], …],
"allocator_settings": {…}}``, where an event is ``{"action", "addr", "size", "stream", "frames"}``,
and its size is the bytes that the program asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ..errors import AttnMemError
from ..units import excerpt, shown
from .plain_pickle import load_plain
from .source_lines import Line, line_of

#: The actions that take memory from the device, and those that return it.
TAKES: Final = frozenset({"segment_alloc", "segment_map"})
RETURNS: Final = frozenset({"segment_free", "segment_unmap"})


@dataclass(frozen=True, slots=True)
class Event:
    """One event of the allocator of one device."""

    action: str
    """``alloc``, ``free_requested``, ``free_completed``, ``segment_alloc``, ``oom`` or another."""
    address: int
    size: int
    """The bytes asked for; of a segment, its bytes."""
    stream: int
    line: Line


@dataclass(frozen=True, slots=True)
class Allocated:
    """A block that is allocated when the snapshot is taken."""

    address: int
    size: int
    """The bytes asked for."""
    stream: int
    line: Line


@dataclass(frozen=True, slots=True)
class DeviceHistory:
    """The events of one device, and the state at their end."""

    device: int
    events: tuple[Event, ...] = field(repr=False)
    allocated: tuple[Allocated, ...] = field(repr=False)
    reserved_bytes: int
    """The bytes of all segments at the end."""
    configuration: str
    """The text of ``PYTORCH_CUDA_ALLOC_CONF``."""


def load_snapshot(path: Path) -> tuple[DeviceHistory, ...]:
    """Returns the devices in a snapshot that have events or segments.

    Raises:
        AttnMemError: the file cannot be read, is not a snapshot, or recorded no events.
    """
    data = load_plain(path)
    try:
        found = [*_devices(data)]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        why = excerpt(f"{type(error).__name__} {error}", 120)
        raise AttnMemError(
            f"cannot read {path}: it is not a snapshot of torch.cuda.memory ({why})"
        ) from error
    if not any(device.events for device in found):
        raise AttnMemError(
            f"{path} has no events; call torch.cuda.memory._record_memory_history() before the"
            " program allocates"
        )
    return tuple(device for device in found if device.events or device.reserved_bytes)


def _devices(data: Mapping[str, Any]) -> Iterator[DeviceHistory]:
    segments = data["segments"]
    settings = data.get("allocator_settings") or {}
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    configuration = next((str(settings[name]) for name in names if settings.get(name)), "")
    for device, trace in enumerate(data["device_traces"]):
        own = [segment for segment in segments if segment["device"] == device]
        yield DeviceHistory(
            device,
            tuple(map(_event, trace)),
            tuple(block for segment in own for block in _allocated(segment)),
            sum(_size(segment["total_size"]) for segment in own),
            configuration,
        )


def _event(event: Mapping[str, Any]) -> Event:
    address = event.get("addr", event.get("device_free", 0))  # an ``oom`` has no address
    return Event(
        str(event["action"]),
        _whole(address),
        _size(event.get("size", 0)),
        _whole(event.get("stream", 0)),
        line_of(event.get("frames") or ()),
    )


def _allocated(segment: Mapping[str, Any]) -> Iterator[Allocated]:
    address = _whole(segment["address"])
    for block in segment["blocks"]:
        if str(block["state"]).startswith("active"):
            asked = _size(block.get("requested_size", block["size"]))
            start = _whole(block.get("address", address))
            yield Allocated(
                start, asked, _whole(segment["stream"]), line_of(block.get("frames") or ())
            )
        address += _size(block["size"])


def _size(value: object) -> int:
    size = _whole(value)
    if size < 0:
        raise ValueError(f"a size of {size} bytes")
    return size


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{shown(value)} is not a whole number")
    return value
