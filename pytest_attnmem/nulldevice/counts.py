"""The counters of the runtime under this process."""

from __future__ import annotations

import ctypes
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from ..errors import BackendUnavailable
from .launch import present
from .refusals import refusals

#: The reason for which a program that uses CUDA graphs ends, and what to do.
CAPTURED: Final = (
    "the program captures a CUDA graph, which the null device cannot: turn CUDA graphs off in the"
    " program, as torchtitan does with --training.disable_cuda_graphs"
)
#: The calls that stand for a workspace in the memory of PyTorch, by library.
_WORKSPACES: Final = MappingProxyType(
    {"cuFFT": re.compile("cufftXtExec"), "cuSOLVER": re.compile(r"cusolver\w+_bufferSize")}
)


def unknown_calls() -> dict[str, int]:
    """Returns the number of calls that the runtime does not know or refused, by name."""
    read = runtime().attnmem_null_unknown
    read.restype = ctypes.c_size_t
    read.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    size = 0
    while True:  # a thread may add a name between two calls
        buffer = ctypes.create_string_buffer(size + 1)
        needed = read(buffer, len(buffer))
        if needed <= size:
            break
        size = needed
    found: Counter[str] = Counter()
    for line in sorted(buffer.value.decode().splitlines()):
        name, calls = line.split()
        found[name] += int(calls)
    return dict(found)


def last_unknown_call() -> str:
    """Returns the name of the last of these calls, the one that an error comes of; or ""."""
    read = runtime().attnmem_null_last_unknown
    read.restype = ctypes.c_char_p
    return bytes(read()).decode()


def device_reads() -> int:
    """Returns how often the host read device memory: ``.item()``, ``nonzero`` …"""
    read = runtime().attnmem_null_reads
    read.restype = ctypes.c_ulong
    return int(read())


class Listener:
    """Has the runtime call a function, on the thread that does what is listened to."""

    _listen: str
    """The runtime's function that takes the callback."""
    _kind: Any
    """The callback's type."""

    def __init__(self, callback: Callable[..., object]) -> None:
        self._callback = self._kind(callback)  # C holds no reference to it

    def start(self) -> None:
        """Starts to listen."""
        self._tell(self._callback)

    def stop(self) -> None:
        """Stops listening, which then costs nothing."""
        self._tell(self._kind())

    def _tell(self, callback: Any) -> None:
        listen = runtime()[self._listen]
        listen.argtypes, listen.restype = (self._kind,), None
        listen(callback)


class NextRead(Listener):
    """Calls a function at the next read of device memory."""

    _listen, _kind = "attnmem_null_on_read", ctypes.CFUNCTYPE(None)


class WorkspaceUse(Listener):
    """Calls a function with the address of the workspace of each product."""

    _listen, _kind = "attnmem_null_on_workspace", ctypes.CFUNCTYPE(None, ctypes.c_void_p)


def counted() -> dict[str, Any]:
    """Returns the devices of this process, its unknown calls and its device reads."""
    return {
        "devices": str(present()),
        "unknown_calls": unknown_calls(),
        "device_reads": device_reads(),
    }


def remarks(device: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line for each counter that is not zero."""
    yield from unanswered(device)
    if device["device_reads"]:
        yield f"attnmem: reads of device memory that returned zeros: {device['device_reads']}"


def captures_graph(calls: Iterable[str]) -> bool:
    """Returns True if one of the calls captures or replays a CUDA graph, which is refused."""
    return any("Capture" in name or "Graph" in name for name in calls)


def unanswered(device: Mapping[str, Any]) -> Iterator[str]:
    """Yields a line that names the unknown calls, and one of unknown workspaces, if any."""
    counts = dict(device["unknown_calls"])
    if captures_graph(counts):
        yield f"attnmem: {CAPTURED}"
    for reason, calls in refusals(counts).items():
        yield f"attnmem: on the null device {reason}"
        for call in calls:
            del counts[call]
    workspaces = {
        library: sum([counts.pop(name) for name in [*counts] if pattern.fullmatch(name)])
        for library, pattern in _WORKSPACES.items()
    }
    if lacking := [f"{library} ({count})" for library, count in workspaces.items() if count]:
        yield (
            f"attnmem: no number here has the workspaces of {' and '.join(lacking)}: their sizes"
            " are known on a GPU alone"
        )
    others = ", ".join(f"{name} ({count})" for name, count in counts.items())
    if others:
        yield f"attnmem: the null device does not know these calls: {others}"


@cache  # which ctypes makes a class for, each time
def runtime() -> ctypes.CDLL:
    """Returns the runtime under this process.

    Raises:
        BackendUnavailable: the process does not run under the null device.
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "attnmem_null_unknown"):
        raise BackendUnavailable("this process does not run under the null device")
    return library
