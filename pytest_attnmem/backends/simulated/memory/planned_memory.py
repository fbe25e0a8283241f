"""The memory of one operator, allocated and freed by its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from ....allocator import AllocationError
from ...autograd_engine import in_backward
from ..scratch.op_plan import AllocationPlan, Free, Output, Temporary, Unplanned, Workspace
from .simulated_device import BACKWARD, MAIN, Device, DeviceBlock
from .storages import DeviceStorage, Line, scratch_held, workspace_held

_SHOWN: Final = 20


class UnknownScratch:
    """The operators without a model, and the first reason why a model knows no size."""

    def __init__(self) -> None:
        self._ops: dict[str, bool] = {}  # in the order of their first calls
        self._reason = ""

    def mark(self, op: str) -> None:
        """Records an operator whose scratch no model knows."""
        self._ops[op] = True

    def explain(self, reason: str) -> None:
        """Records why the scratch of a call is unknown whose operator has a model."""
        self._reason = self._reason or reason

    def clear(self) -> None:
        """Begins a window."""
        self._ops.clear()
        self._reason = ""

    @property
    def problem(self) -> str | None:
        """Returns why the numbers may be wrong."""
        ops = [*self._ops]
        if ops:
            more = f" and {len(ops) - _SHOWN} more" if len(ops) > _SHOWN else ""
            return f"no model of {', '.join(ops[:_SHOWN])}{more}; use backend='null' or 'cuda'"
        return self._reason or None


class PlannedMemory:
    """Allocates what operators need."""

    def __init__(self, memory: Device, unknown: UnknownScratch) -> None:
        self.in_other_thread: Callable[[], bool] = bool
        """Returns True in a thread that a program started; such threads have own workspaces."""
        self._memory = memory
        self._unknown = unknown

    def allocate(
        self, plan: AllocationPlan, fresh: Sequence[DeviceStorage], func: Any, line: Line
    ) -> None:
        """Allocates the storages that an operator made, and its scratch, and frees the scratch.

        Raises:
            AllocationError: they do not fit.
        """
        memory = self._memory
        temporaries: dict[str, DeviceBlock] = {}
        try:
            for step in plan:
                if type(step) is Output:
                    found = fresh[step.index]
                    nbytes = found.nbytes if step.nbytes is None else step.nbytes
                    found.nbytes_made, found.op, found.line = nbytes, func, line
                    found.block = memory.allocate(nbytes, found.held)
                elif type(step) is Workspace:
                    if self.in_other_thread():
                        self._unknown.mark(f"{step.library}'s workspace in another thread")
                    held = partial(workspace_held, step.library, line)
                    thread = BACKWARD if in_backward() else MAIN  # as in a CUDA build
                    if unknown := memory.use_workspace(step.library, thread, held):
                        self._unknown.explain(unknown)
                elif type(step) is Temporary:
                    block = self._allocate_scratch(step, func, line)
                    if block is not None:
                        temporaries[step.name] = block
                elif type(step) is Free:
                    if step.name in temporaries:
                        memory.free(temporaries.pop(step.name))
                elif type(step) is Unplanned:
                    self._unknown.explain(step.reason)
        finally:
            for name in reversed(temporaries):
                memory.free(temporaries[name])

    def _allocate_scratch(self, step: Temporary, func: Any, line: Line) -> DeviceBlock | None:
        try:
            return self._memory.allocate(
                step.nbytes, partial(scratch_held, step.nbytes, func, line)
            )
        except AllocationError:
            if not step.otherwise:
                raise
            self._unknown.explain(step.otherwise)
            return None
