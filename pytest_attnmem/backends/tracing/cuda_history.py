"""The CUDA allocator's own history, with the tensors and source lines of the program.

``torch.cuda.memory`` can record every allocation and free, scratch inside kernels included. It
does not know which tensor an allocation is for; the dispatcher does. So each operator's number is
attached to the allocations made while it runs, and an allocation at the address of one of its
outputs is that tensor. The operator's other allocations are its scratch. Compiled code runs as it
is: its buffers come from no operator, and the code that Inductor generated says what they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from ...measurement.environment import are_kept
from ...measurement.held import SCRATCH_SUFFIX, Held
from ...measurement.peak_watch import PeakWatch
from ...measurement.protocol import Interval
from ...measurement.tensor_groups import in_module
from ...torch_releases import minor_version
from .dispatch_tracker import LIFT, TrackingMode, is_wrapped, name_of
from .holders import NamesHolders
from .inductor_code import buffer_at, place_of
from .live_tensors import LiveTensors
from .tensor_origin import user_frame

#: The operators that a library computes in a workspace.
_PRODUCTS = frozenset(
    {"mm", "addmm", "addmm_activation", "bmm", "baddbmm", "mv", "addmv", "dot", "vdot"}
)

#: Private, and new in torch 2.11; where one is missing, the tracker is used instead.
NEEDED = ("_record_memory_history", "_snapshot", "_set_memory_metadata")


class CudaMemoryHistory(NamesHolders):
    """A recorder that reads the allocator's history of one device."""

    def __init__(self, index: int, memory: Any = torch.cuda.memory, fault: str = "") -> None:
        """``fault`` says why the dispatcher does not show tensors; empty if it does."""
        self._fault = fault
        self._index = index
        self._memory = memory
        self._mode = _LabellingMode(memory)
        self._tensors = LiveTensors()
        self._numbers: dict[int, int] = {}  # of live tensors, by address

    def start(self) -> None:
        """Begins to record."""
        self._memory._record_memory_history("all", context="all", stacks="python")
        # The history may still have the entries of an earlier recording.
        self._skip = len(self._entries(self._memory._snapshot()))
        self._mode.between()
        self._mode.__enter__()  # type: ignore[no-untyped-call]

    def stop(self) -> Interval:
        """Ends the recording; returns the interval that it covers."""
        self._mode.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        self._memory._set_memory_metadata("")
        snapshot = self._memory._snapshot()
        self._memory._record_memory_history(None)
        entries = self._entries(snapshot)[self._skip :]
        self._replay(entries)
        devices = range(len(snapshot["device_traces"]))
        traces = [entries if index == self._index else [] for index in devices]
        shown = {**snapshot, "device_traces": traces}
        problem = self._fault or None
        return self._tensors.interval(self._tensors.delta, snapshot=shown, problem=problem)

    def allocation_of(self, storage: torch.UntypedStorage) -> int | None:
        """Returns the number of the allocation of a storage that was alive at the last ``stop``."""
        return self._numbers.get(storage.data_ptr())

    def watch(self, peak: PeakWatch) -> None:
        """Has ``peak`` see each new tensor."""
        self._mode.watch(peak)

    def _entries(self, snapshot: Mapping[str, Any]) -> list[dict[str, Any]]:
        traces: list[list[dict[str, Any]]] = snapshot["device_traces"]
        return traces[self._index] if self._index < len(traces) else []

    def _replay(self, entries: Iterable[dict[str, Any]]) -> None:
        self._tensors.begin()
        for entry in entries:
            if entry["action"] == "alloc":
                held = self._mode.name(entry)
                entry["user_metadata"] = _label(held)
                self._numbers[entry["addr"]] = self._allocate(held)
            elif entry["action"] == "free_completed" and entry["addr"] in self._numbers:
                self._tensors.free(self._numbers.pop(entry["addr"]))

    def _allocate(self, held: Held) -> int:
        return self._tensors.allocate(held.nbytes, lambda: held)


class _LabellingMode(TrackingMode):
    """Numbers the operators as they run, and attaches the number to their allocations."""

    def __init__(self, memory: Any) -> None:
        super().__init__()
        self._memory = memory
        self._workspaces = _workspaces()
        self._calls: list[Held] = []
        self._outputs: dict[tuple[str, int], tuple[int, Held]] = {}

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Returns True: compiled code runs compiled under this mode."""
        return True

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if is_wrapped(types):
            return NotImplemented
        self._calls.append(Held.of_scratch(0, name_of(func), *self.caller()))
        self._memory._set_memory_metadata(str(len(self._calls) - 1))
        try:
            return super().__torch_dispatch__(func, types, args, kwargs)
        finally:
            self.between()

    def between(self) -> None:
        """Labels allocations between two operators: the next may make a tensor of one."""
        self._memory._set_memory_metadata(f"before {len(self._calls)}")

    def allocated(self, number: int, held: Held, storage: torch.UntypedStorage) -> None:
        """Remembers the address of a tensor that the running operator made or received."""
        call = str(len(self._calls) - 1)
        call = f"before {call}" if held.op == LIFT.overloadpacket.__name__ else call
        self._outputs[call, storage.data_ptr()] = number, held

    def name(self, entry: Mapping[str, Any]) -> Held:
        """Returns the tensor that an allocation is for, or the operator's scratch."""
        frames = [(f["filename"], f["line"], f["name"]) for f in entry.get("frames", ())]
        held, compiled = self._by_operator(entry), place_of(frames)
        if held is not None:
            return replace(held, function=compiled.graph) if compiled else held
        if compiled:
            return buffer_at(entry["size"], compiled)
        line = user_frame(frames)
        op = "(not by an operator)"
        return Held(entry["size"], (), "", op, line.where, line.function, by=line.by)

    def _by_operator(self, entry: Mapping[str, Any]) -> Held | None:
        """Returns what an operator allocated; None for an allocation between two operators."""
        size, call = entry["size"], str(entry.get("user_metadata") or "")
        output = self._outputs.get((call, entry["addr"]))
        if output is not None:
            return replace(self.known(*output), nbytes=size)
        if call.isdecimal() and int(call) < len(self._calls):
            by, library = self._calls[int(call)], self._workspaces.get(size, "")
            if library and by.op.removesuffix(SCRATCH_SUFFIX) in _PRODUCTS:
                return Held.of_workspace(size, library, by.where, by.function, by.module, by.role)
            return replace(by, nbytes=size)
        return None


def _workspaces() -> Mapping[int, str]:
    """Returns the library by the size of the workspace that each of its calls allocates."""
    if are_kept(minor_version(torch.__version__)):
        return {}
    return {
        torch._C._cuda_getCublasLtWorkspaceSize(): "cuBLASLt",
        torch._C._cuda_getCublasWorkspaceSize(): "cuBLAS",
    }


def _label(held: Held) -> str:
    """Returns the text that PyTorch's memory viewer shows beside an allocation."""
    tensor = f"{list(held.shape)} {held.dtype}" if held.dtype else ""
    return "  ".join(filter(None, (tensor, held.op, held.where, in_module(held))))
