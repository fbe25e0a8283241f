"""The memory of one operator, allocated and freed by its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch

from ...allocator import AllocationError
from .allocation_lines import AllocatedStorage, Line, scratch_held, workspace_held
from .device_memory import Memory
from .op_plan import AllocationPlan, Free, Output, Temporary, Unplanned, Workspace
from .simulated_device import BACKWARD, MAIN, DeviceBlock
from .unknown_scratch import UnknownScratch


class PlannedMemory:
    """Allocates what operators need."""

    def __init__(self, memory: Memory, unknown: UnknownScratch) -> None:
        self.in_other_thread: Callable[[], bool] = bool
        """Returns True in a thread that a program started; such threads have own workspaces."""
        self._memory = memory
        self._unknown = unknown

    def allocate(
        self, plan: AllocationPlan, fresh: Sequence[AllocatedStorage], func: Any, line: Line
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
                    if unknown := memory.use_workspace(step.library, _current_thread(), held):
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


def _current_thread() -> str:
    """Returns the thread that a CUDA build would use: backward passes have their own."""
    return MAIN if torch._C._current_graph_task_id() == -1 else BACKWARD
