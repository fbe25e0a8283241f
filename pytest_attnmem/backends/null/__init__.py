"""CUDA memory on the null device: PyTorch's own allocator and kernels, and values on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import torch

from ...errors import BackendUnavailable
from ...measurement.protocol import Interval, Recorder
from ...nulldevice.counts import NextRead, WorkspaceUse, captures_graph, device_reads, unknown_calls
from ...nulldevice.launch import Devices, devices, present
from ...nulldevice.refusals import missing_libraries, refusal, refusals, unplanned
from ..cuda import Cuda
from ..tracing.dispatch_tracker import caller
from .noting import noting
from .settled_backward import settle_each_pass

#: PyTorch's name of an allocator of CUDA's, which the null device does not have.
_ASYNC: Final = "cudaMallocAsync"


class Null(Cuda):
    """One device of the null runtime that this process was started under."""

    larger_is_free = False  # the host runs every kernel launch, and the device has a capacity

    def __init__(self, index: int, running: Devices) -> None:
        super().__init__(index)
        settle_each_pass()
        self.name = f"null:{running}"
        self._use = WorkspaceUse(self._show)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Returns ``null``, and the kinds of the device it stands for: ``sm90``, ``cuda``."""
        return ("null", *super().kinds)

    def synchronize(self) -> None:
        """Waits for all streams; autograd's thread has settled after each backward pass."""
        self._api.synchronize(self._index)

    def _multiply(self) -> None:
        """Makes workspaces; each is shown once a product of the program uses it."""
        used: dict[int, None] = {}
        made = WorkspaceUse(lambda address: used.update({address: None}))
        made.start()
        super()._multiply()
        if self._counters is not None:
            self._counters.hide_workspaces(self._index, [*used])
        self._use.start()

    def _show(self, address: int) -> None:
        if self._counters is None or self._counters.show_workspace(address):
            self._use.stop()

    def gauge(self) -> Recorder:
        """Returns a recorder of the allocator's counters and of the runtime's."""
        return _NullRecorder(super().gauge())


class _NullRecorder:
    """Counts memory, and notices calls and reads whose results no real device would give."""

    def __init__(self, counters: Recorder) -> None:
        self._counters = counters
        self._next_read = NextRead(self._locate)

    def start(self) -> None:
        self._counters.start()
        self._first_read = ""
        self._calls, self._reads = unknown_calls(), device_reads()
        self._unknown = len(_untrue_values())
        self._next_read.start()

    def stop(self) -> Interval:
        self._next_read.stop()
        reads = device_reads() - self._reads
        calls = {
            name: count - self._calls.get(name, 0)
            for name, count in unknown_calls().items()
            if count > self._calls.get(name, 0)
        }
        interval = self._counters.stop()
        unknown = _untrue_values()[self._unknown :]
        why = untrue(calls, reads, self._first_read, unknown[0] if unknown else "")
        return replace(interval, problem=interval.problem or why)

    def _locate(self) -> None:
        self._first_read = caller()


def _untrue_values() -> Sequence[str]:
    """Returns the reads of values that nobody knows, or that rest on an assumption, in order."""
    found = noting()
    return found.reads.untrue if found else ()


def untrue(calls: dict[str, int], reads: int, first_read: str, unknown: str = "") -> str | None:
    """Returns why a real device would need other memory; ``None`` where it would not."""
    for missing in missing_libraries(calls):
        return f"on the null device {missing}"
    if reason := unplanned(calls):
        return reason
    if captures_graph(calls):
        return "a CUDA graph was captured, which the null device cannot"
    for reason in refusals(calls):
        return f"on the null device {reason}"
    if calls:
        return f"the null device does not know {', '.join(calls)}"
    if unknown:
        return unknown
    if reads:
        times = "once" if reads == 1 else f"{reads} times"
        first = ", at" if reads == 1 else ", first at"
        where = f"{first} {first_read}" if first_read else ""
        return (
            f"the device was read {times}{where}: it gives zeros, and a size or a branch that"
            " depends on them is wrong; read values after the window"
        )
    return None


def open_backend(argument: str) -> Null:
    """Returns the null device of this process; a profile must be the one that is running.

    Raises:
        BackendUnavailable: the process was not started under it, or under another profile.
    """
    running = present()
    if running is None:
        wanted = f"null:{argument}" if argument else "null"
        raise BackendUnavailable(
            "backend 'null' must be there before torch is imported: start with pytest"
            f" --attnmem-backend {wanted}, or attnmem run"
        )
    if argument.isdecimal():
        if int(argument) >= torch.cuda.device_count():
            raise BackendUnavailable(f"backend 'null' has no device {argument} on {running}")
        return Null(int(argument), running)
    if argument and devices(argument, [running.profile]).profile != running.profile:
        raise BackendUnavailable(
            f"backend 'null:{argument}' is not what this process runs under: null:{running}"
        )
    if torch.cuda.get_allocator_backend() == _ASYNC:
        raise BackendUnavailable(f"on null:{running} {refusal(_ASYNC)}")
    if not torch.cuda.device_count():
        raise BackendUnavailable("backend 'null' has no device: see CUDA_VISIBLE_DEVICES")
    return Null(torch.cuda.current_device(), running)
