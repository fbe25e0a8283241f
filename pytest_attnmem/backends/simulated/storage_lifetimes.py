"""When storages are born and die, in the order in which a program makes them."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

import torch

from ...allocator import OutOfMemory
from ...profiles import DeviceProfile
from ...units import format_size
from ..tracing.tensor_origin import GRADIENT, PARAMETER, is_gradient, is_parameter
from .allocation_lines import Line, Lines, Role, scratch, written
from .cublas_workspace import workspace_bytes
from .fake_tensor import SimulatedTensor
from .op_cache import CachedOp
from .op_plan import AllocationPlan, Free, OpCall, Output, Planner, Temporary, Workspace
from .simulated_device import BACKWARD, MAIN, About, DeviceBlock


class Memory(Protocol):
    """Where births and deaths are told; a :class:`~.device.Device`."""

    profile: DeviceProfile

    def allocate(self, nbytes: int, about: About) -> DeviceBlock | None:
        """Something is born."""

    def admit(self, nbytes: int) -> DeviceBlock | None:
        """An input is met."""

    def free(self, block: DeviceBlock) -> None:
        """It is gone."""

    def workspace(self, name: str, thread: str, nbytes: int, about: About) -> None:
        """An operator wants the workspace of its thread's handle."""


class _Storage(Role):
    """What is known of one storage."""

    __slots__ = ("block", "nbytes", "watch")

    def __init__(self, nbytes: int) -> None:
        super().__init__()
        self.nbytes = nbytes
        self.block: DeviceBlock | None = None
        self.watch: weakref.ref[Any] | None = None


class StorageLifetimes:
    """Follows the storages of one world, by operator, and tells a memory of them."""

    def __init__(self, memory: Memory, plan: Planner) -> None:
        self.memory = memory
        self.unknown: dict[str, bool] = {}
        """The operators that nobody knows the scratch of, in the order in which they were met."""
        self._plan = plan
        self._known: dict[int, _Storage] = {}
        self._views: dict[Any, bool] = {}
        self.lines = Lines()
        self._strangers = False

    def note(self, op: str) -> None:
        """Remember an operator that nobody knows the scratch of."""
        self.unknown[op] = True

    def restart(self) -> None:
        """The memory begins anew: all that is alive is an input."""
        self._strangers = self._strangers or bool(self._known)
        self._known.clear()
        self.unknown.clear()

    def after(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        out: Any,
        inherits: bool,
        recalled: CachedOp | None,
    ) -> None:
        """An operator returned ``out``, tensors alone or in tuples and lists.

        If it ``inherits``, the first takes the place in memory of the first argument. ``recalled``
        stands for every call like it.

        Raises:
            torch.OutOfMemoryError: they, or what the operator needs besides, do not fit.
        """
        view = self._views.get(func)
        if view is None:
            view = self._views[func] = bool(func.is_view)
        if view:
            return
        if self._strangers:  # alive since before the memory began anew
            for given in _on_device(args):
                self.admit(given)
        if inherits:  # what it makes is not what the same call makes elsewhere
            recalled = None
        fresh: list[tuple[Any, _Storage]] = []
        known = self._known
        for tensor in _on_device(out):
            storage = tensor.untyped_storage()
            key = storage._cdata
            found = known.get(key)
            if found is None:
                nbytes = storage.nbytes()
                found = known[key] = _Storage(nbytes)
                found.watch = weakref.ref(storage, partial(self._died, key))
                if inherits:
                    self._inherit(args[0], found)
                    inherits = False
                else:
                    fresh.append((tensor, found))
            elif found.nbytes != storage.nbytes():
                self._resized(func, tensor, found, storage.nbytes())
        if recalled is not None and recalled.plan is not ...:
            plan = recalled.plan
        else:
            plan = self._planned(func, args, kwargs, tuple([tensor for tensor, _ in fresh]))
            if recalled is not None:
                recalled.plan = plan
        if plan is None:
            self.note(str(func))
            plan = tuple(map(Output, range(len(fresh))))
        if plan:
            try:
                self._follow(plan, fresh, func, self.lines.caller())
            except OutOfMemory as error:
                raise torch.OutOfMemoryError(_cuda_text(error)) from None

    def _is(self, role: str, tensor: Any) -> None:
        found = self._known.get(tensor.untyped_storage()._cdata)
        if found is not None:
            found.role = role

    def _planned(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        outputs: tuple[Any, ...],
    ) -> AllocationPlan | None:
        if not outputs and not any(map(_on_device, args)):
            return ()  # of the host's own
        deterministic = torch.are_deterministic_algorithms_enabled()
        call = OpCall(str(func), args, kwargs, outputs, self.memory.profile, deterministic)
        return self._plan(call)

    def learn_roles(self, args: tuple[Any, ...], out: Any) -> None:
        """Remember the storages of parameters and of their gradients."""
        for tensor in _on_device(args):
            if is_parameter(tensor):
                self._is(PARAMETER, tensor)
        if is_gradient():
            for tensor in _on_device(out):
                self._is(GRADIENT, tensor)

    def admit(self, tensor: Any) -> None:
        """A tensor that was there before: an input."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._known:
            nbytes = storage.nbytes()
            try:
                block = self.memory.admit(nbytes)
            except OutOfMemory as error:
                raise torch.OutOfMemoryError(_cuda_text(error)) from None
            found = self._known[key] = _Storage(nbytes)
            found.block = block
            found.watch = weakref.ref(storage, partial(self._died, key))

    def block(self, tensor: Any) -> DeviceBlock | None:
        """Where the tensor lives."""
        found = self._known.get(tensor.untyped_storage()._cdata)
        return found.block if found is not None else None

    def resized(self, storage: torch.UntypedStorage) -> None:
        """A storage was given another size, by no operator."""
        found = self._known.get(storage._cdata)
        if found is not None and found.nbytes != storage.nbytes():
            about = partial(
                written, storage.nbytes(), (storage.nbytes(),), torch.uint8, "resize_",
                self.lines.caller(), found,
            )  # fmt: skip
            self._grown(found, storage.nbytes(), about)

    def _follow(
        self, plan: AllocationPlan, fresh: list[tuple[Any, _Storage]], func: Any, line: Line
    ) -> None:
        memory = self.memory
        temporaries: dict[str, DeviceBlock] = {}
        try:
            for step in plan:
                if isinstance(step, Output):
                    tensor, found = fresh[step.index]
                    # Kernels may make more than they are seen to.
                    nbytes = found.nbytes if step.nbytes is None else step.nbytes
                    about = partial(written, nbytes, tensor.shape, tensor.dtype, func, line, found)
                    found.block = memory.allocate(nbytes, about)
                elif isinstance(step, Temporary):
                    about = partial(scratch, step.nbytes, func, line)
                    block = memory.allocate(step.nbytes, about)
                    if block is not None:
                        temporaries[step.name] = block
                elif isinstance(step, Free):
                    if step.name in temporaries:
                        memory.free(temporaries.pop(step.name))
                elif isinstance(step, Workspace):
                    nbytes = workspace_bytes(memory.profile)
                    about = partial(scratch, nbytes, func, line)
                    memory.workspace(step.name, thread(), nbytes, about)
        finally:
            for name in reversed(temporaries):
                memory.free(temporaries[name])

    def _inherit(self, parent: Any, heir: _Storage) -> None:
        found = self._known.get(parent.untyped_storage()._cdata)
        if found is not None and found.nbytes == heir.nbytes:
            heir.block, found.block = found.block, None

    def _resized(self, func: Any, tensor: Any, found: _Storage, nbytes: int) -> None:
        line = self.lines.caller()
        about = partial(written, nbytes, tensor.shape, tensor.dtype, func, line, found)
        try:
            self._grown(found, nbytes, about)
        except OutOfMemory as error:
            raise torch.OutOfMemoryError(_cuda_text(error)) from None

    def _grown(self, found: _Storage, nbytes: int, about: About) -> None:
        """What is resized is copied: there are two of it for a moment."""
        block = self.memory.allocate(nbytes, about)
        if found.block is not None:
            self.memory.free(found.block)
        found.block, found.nbytes = block, nbytes

    def _died(self, key: int, _: object) -> None:
        found = self._known.pop(key, None)
        if found is not None and found.block is not None:
            self.memory.free(found.block)


def _on_device(value: Any) -> list[Any]:
    """The tensors in it that are on the device."""
    if type(value) is SimulatedTensor:
        return [value] if value._fake_device.type == "cuda" else []
    if isinstance(value, (tuple, list)):
        return [tensor for item in value for tensor in _on_device(item)]
    return []


def thread() -> str:
    """The thread that a CUDA build would run this on: backward passes have one of their own."""
    return MAIN if torch._C._current_graph_task_id() == -1 else BACKWARD


def _cuda_text(error: OutOfMemory) -> str:
    """As PyTorch says it, so that a program that reads it understands."""
    return (
        f"CUDA out of memory. Tried to allocate {format_size(error.asked)}. GPU 0 has a total"
        f" capacity of {format_size(error.capacity)} of which {format_size(error.free)} is free."
    )
