"""The CUDA allocator's own history, in the words of the program.

``torch.cuda.memory`` can record every allocation and free, scratch inside kernels included. What
an allocation is for, it does not know; the dispatcher does. So each operator's number is attached
to the allocations made while it runs, and a tensor is the one that the operator put at that
address. The rest of an operator's allocations is its scratch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from ...measurement.held import Held
from ...measurement.protocol import Interval
from ..compile_watch import CompileWatch
from .dispatch_tracker import EAGER, LIFT, TrackingMode, prime
from .live_tensors import LiveTensors
from .tensor_origin import user_frame

#: Private, and new in torch 2.11; where one is missing, the tracker alone has to do.
NEEDED = ("_record_memory_history", "_snapshot", "_set_memory_metadata")


class CudaMemoryHistory:
    """A gauge that reads the allocator's record of one device."""

    def __init__(self, index: int, memory: Any = torch.cuda.memory) -> None:
        prime()
        self._index = index
        self._memory = memory
        self._mode = _LabellingMode(memory)
        self._compiled = CompileWatch()
        self._ledger = LiveTensors()
        self._alive: dict[int, int] = {}  # by address, number

    def start(self) -> None:
        """Begin to record."""
        self._memory._record_memory_history("all", context="all", stacks="python")
        self._skip = len(self._entries(self._memory._snapshot()))  # a recorder may keep what it had
        self._mode.between()
        self._compiled.start()
        self._mode.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> Interval:
        """End the recording and read it."""
        self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._compiled.stop()
        self._memory._set_memory_metadata("")
        snapshot = self._memory._snapshot()
        self._memory._record_memory_history(None)
        entries = self._entries(snapshot)[self._skip :]
        self._fold(entries)
        devices = range(len(snapshot["device_traces"]))
        traces = [entries if index == self._index else [] for index in devices]
        shown = {**snapshot, "device_traces": traces}
        problem = EAGER if self._compiled.noticed else None
        return self._ledger.stretch(self._ledger.rise, snapshot=shown, problem=problem)

    def _entries(self, snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
        traces: list[list[dict[str, Any]]] = snapshot["device_traces"]
        return traces[self._index] if self._index < len(traces) else []

    def _fold(self, entries: Iterable[dict[str, Any]]) -> None:
        self._ledger.begin()
        for entry in entries:
            if entry["action"] == "alloc":
                held = self._mode.name(entry)
                entry["user_metadata"] = _told(held)
                self._alive[entry["addr"]] = self._born(held)
            elif entry["action"] == "free_completed" and entry["addr"] in self._alive:
                self._ledger.died(self._alive.pop(entry["addr"]))

    def _born(self, held: Held) -> int:
        return self._ledger.born(held.nbytes, lambda: held)


class _LabellingMode(TrackingMode):
    """Numbers the operators as they run, and attaches the number to what they allocate."""

    def __init__(self, memory: Any) -> None:
        super().__init__()
        self._memory = memory
        self._calls: list[Held] = []
        self._tensors: dict[tuple[str, int], tuple[int, Held]] = {}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        op = func.overloadpacket.__name__.strip("_")
        self._calls.append(Held.of_scratch(0, op, *self.caller()))
        self._memory._set_memory_metadata(str(len(self._calls) - 1))
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        finally:
            self.between()

    def between(self) -> None:
        """What is allocated from here on is no operator's, but the next may make a tensor of it."""
        self._memory._set_memory_metadata(f"before {len(self._calls)}")

    def born(self, number: int, held: Held, storage: torch.UntypedStorage) -> None:
        """Remember where the operator that runs put a tensor, or found one that was just made."""
        call = str(len(self._calls) - 1)
        call = f"before {call}" if held.op == LIFT.overloadpacket.__name__ else call
        self._tensors[call, storage.data_ptr()] = number, held

    def name(self, entry: Mapping[str, Any]) -> Held:
        """The tensor that an allocation is for, or whose scratch it is."""
        size, call = entry["size"], str(entry.get("user_metadata") or "")
        tensor = self._tensors.get((call, entry["addr"]))
        if tensor is not None:
            return replace(self.known(*tensor), nbytes=size)
        if call.isdecimal() and int(call) < len(self._calls):
            return replace(self._calls[int(call)], nbytes=size)
        frames = [(f["filename"], f["line"], f["name"]) for f in entry.get("frames", ())]
        return Held(size, (), "", "(not by an operator)", *user_frame(frames))


def _told(held: Held) -> str:
    """In the words that the viewer shows beside an allocation."""
    tensor = f"{list(held.shape)} {held.dtype}" if held.dtype else ""
    return "  ".join(filter(None, (tensor, held.op, held.where)))
