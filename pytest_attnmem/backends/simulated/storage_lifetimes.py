"""The allocation and freeing of storages, in the order in which a program makes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

import torch

from ...allocator import AllocationError
from ..tracing.tensor_origin import GRADIENT, PARAMETER, is_gradient, is_parameter
from .allocation_lines import LineFinder, tensor_held
from .cached_op import CachedOutput
from .deterministic_ops import FILLING, algorithms
from .device_memory import Memory
from .followed_storage import FollowedStorage, on_device
from .observer import DispatchedOp
from .op_plan import AllocationPlan, CudnnWorkspace, OpCall, Output, Planner
from .out_of_memory import out_of_memory
from .planned_memory import PlannedMemory
from .simulated_device import DescribeHeld, DeviceBlock
from .unknown_scratch import UnknownScratch
from .written_views import WrittenViews

#: The frames from the fake mode's method that runs an operator to ``StorageLifetimes.after_op``.
_FROM_MODE: Final = 4
#: The frames from ``after_new`` to the call of the program.
_FROM_CALL: Final = 4


class StorageLifetimes:
    """Follows the storages of one fake mode, operator by operator, and allocates their memory."""

    def __init__(self, memory: Memory, plan: Planner, cudnn: CudnnWorkspace | None = None) -> None:
        self.memory = memory
        self.unknown = UnknownScratch()
        self.lines = LineFinder()
        self.outside = False
        """True while programs run outside windows, in a session whose device they see there."""
        self.planned = PlannedMemory(memory, self.unknown)
        self.written_views = WrittenViews(self.unknown.explain)
        self._plan = plan
        self._cudnn = cudnn
        self._storages: dict[int, FollowedStorage] = {}
        # By id: the hash of an operator is slow.
        self._views: dict[int, tuple[Any, bool, bool]] = {}
        self._has_older_storages = False
        self._other_holders = Counter[DeviceBlock]()  # of a block, where several hold it

    def mark_unknown(self, op: str) -> None:
        """Records an operator whose scratch no model knows."""
        self.unknown.mark(op)

    def restart(self) -> None:
        """Forgets all storages; one that is still alive becomes an input when it is used.

        Those that were made outside windows stay, and ``readmit`` allocates their memory again.
        """
        for key, found in self._storages.copy().items():  # a collection may free some meanwhile
            if found.outside:
                found.block = None
            else:
                self._storages.pop(key, None)
                self._has_older_storages = True
        self._other_holders.clear()
        self.unknown.clear()
        self.written_views.others = False

    def keep(self, device_named: bool) -> None:
        """Has the storages that are alive survive the next restarts.

        Those of a program that named no device count as on the CPU: their free lowers no level.
        """
        for found in self._storages.values():
            found.unnamed = found.unnamed or not (found.outside or device_named)
            found.outside = True

    def readmit(self) -> None:
        """Allocates the storages that a restart kept, as inputs, where the device has room."""
        for found in [*self._storages.values()]:
            if found.outside and found.block is None:
                with suppress(AllocationError):
                    add = self.memory.add_input if found.unnamed else self.memory.add_older
                    found.block = add(found.nbytes)

    def after_op(self, op: DispatchedOp) -> None:
        """Allocates the outputs of an operator, and its scratch.

        Raises:
            torch.OutOfMemoryError: the outputs or the scratch do not fit.
        """
        view = self._views.get(id(op.func))
        if view is None:
            func = op.func
            view = self._views[id(func)] = func, bool(func.is_view), func._schema.is_mutable
        if view[1]:
            return
        if view[2]:
            self.written_views.note(op.args[:1])
        if self._has_older_storages:
            for tensor in on_device(op.args):
                self.add_input(tensor)
        tensors, fresh, resized = self._add_outputs(op)
        self._allocate(op.func, fresh, self._plan_of(op, tuple(tensors), resized))

    def after_new(
        self,
        func: Any,
        args: Sequence[Any],
        out: Any,
        made: CachedOutput,
        plan: AllocationPlan | None,
    ) -> None:
        """Allocates the storage of ``out``, which an operator made, and scratch, by a known plan.

        Without a plan there is no scratch.

        Raises:
            torch.OutOfMemoryError: the output or the scratch does not fit.
        """
        if self._has_older_storages:
            for tensor in on_device(args):
                self.add_input(tensor)
        storage = out.untyped_storage()
        nbytes = storage.nbytes()
        found = self._follow(storage, storage._cdata, nbytes, made.shape, made.dtype)
        if plan is not None:
            self._allocate(func, (found,), plan)
            return
        found.op, found.line = func, self.lines.caller(_FROM_CALL)
        try:
            found.block = self.memory.allocate(nbytes, found.held)
        except AllocationError as error:
            raise out_of_memory(error) from None

    def _allocate(
        self, func: Any, fresh: Sequence[FollowedStorage], plan: AllocationPlan | None
    ) -> None:
        if plan is None:
            self.mark_unknown(str(func))
            plan = tuple(map(Output, range(len(fresh))))
        if plan:
            try:
                self.planned.allocate(plan, fresh, func, self.lines.caller(_FROM_MODE))
            except AllocationError as error:
                raise out_of_memory(error) from None

    def _follow(
        self,
        storage: torch.UntypedStorage,
        key: int,
        nbytes: int,
        shape: tuple[int, ...] = (),
        dtype: torch.dtype | None = None,
    ) -> FollowedStorage:
        """Returns a new storage without a block, followed until it is freed."""
        found = self._storages[key] = FollowedStorage(storage, self._freed)
        found.describe(key, nbytes, shape, dtype, self.outside)
        return found

    def _add_outputs(self, op: DispatchedOp) -> tuple[list[Any], list[FollowedStorage], bool]:
        """Returns the outputs with a new storage, and True if a storage has another size.

        Such a storage gets other memory.
        """
        in_place, resized = op.in_place, False
        tensors: list[Any] = []
        fresh: list[FollowedStorage] = []
        storages = self._storages
        # An operator with a list of targets returns nothing.
        for tensor in on_device(op.kwargs.get("out") if op.out is None else op.out):
            storage = tensor.untyped_storage()
            key = storage._cdata
            found = storages.get(key)
            if found is None:
                found = self._follow(storage, key, storage.nbytes(), tensor.shape, tensor.dtype)
                if in_place:
                    self._share_block(op.args[0], found)
                    in_place = False
                else:
                    tensors.append(tensor)
                    fresh.append(found)
            elif found.nbytes != storage.nbytes():
                self._resize(op.func, tensor, found, storage.nbytes())
                resized = True
        return tensors, fresh, resized

    def _plan_of(
        self, op: DispatchedOp, outputs: tuple[Any, ...], resized: bool
    ) -> AllocationPlan | None:
        cached = None if op.in_place else op.cached  # the same call is not in place elsewhere
        if cached is not None and cached.plan is not ...:
            return cached.plan
        plan: AllocationPlan | None = ()
        out = op.kwargs.get("out")
        if outputs or any(map(on_device, (*op.args, out))):  # else all is on the host
            memory, kind = self.memory, algorithms()
            call = OpCall(
                str(op.func), op.args, op.kwargs, outputs,
                memory.profile, kind > 0, memory.version, self._cudnn, kind == FILLING,
                resized,
            )  # fmt: skip
            plan = self._plan(call)
        if cached is not None:
            cached.plan = plan
        return plan

    def learn_roles(self, op: DispatchedOp) -> None:
        """Records which storages are of parameters or of their gradients."""
        for tensor in on_device(op.args):
            if is_parameter(tensor):
                self._set_role(PARAMETER, tensor)
        if is_gradient():
            for tensor in on_device(op.out):
                self._set_role(GRADIENT, tensor)

    def _set_role(self, role: str, tensor: Any) -> None:
        found = self._storages.get(tensor.untyped_storage()._cdata)
        if found is not None:
            found.role = role

    def add_input(self, tensor: Any) -> None:
        """Allocates the storage of a tensor from before the window, which is not counted."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key not in self._storages:
            nbytes = storage.nbytes()
            try:
                block = self.memory.add_input(nbytes)
            except AllocationError as error:
                raise out_of_memory(error) from None
            found = self._follow(storage, key, nbytes)
            found.block, found.outside = block, False

    def block(self, tensor: Any) -> DeviceBlock | None:
        """Returns the block that holds the tensor."""
        return self.block_of(tensor.untyped_storage())

    def record_stream(self, tensor: torch.Tensor, stream: int) -> None:
        """Keeps a tensor's memory from reuse until the other stream is done with it."""
        if (block := self.block(tensor)) is not None:
            self.memory.record_stream(block, stream)

    def block_of(self, storage: torch.UntypedStorage) -> DeviceBlock | None:
        """Returns the block of a storage; None for a storage that is not on the device."""
        found = self._storages.get(storage._cdata)
        return found.block if found is not None else None

    def storage_resized(self, storage: torch.UntypedStorage) -> None:
        """Reallocates a storage that was resized without an operator."""
        found = self._storages.get(storage._cdata)
        if found is not None and found.nbytes != storage.nbytes():
            describe = partial(
                tensor_held, storage.nbytes(), (storage.nbytes(),), torch.uint8, "resize_",
                self.lines.caller(), found,
            )  # fmt: skip
            self._reallocate(found, storage.nbytes(), describe)

    def _share_block(self, first: Any, output: FollowedStorage) -> None:
        """Has the output hold the first tensor's block too: a device works in place there."""
        found = self._storages.get(first.untyped_storage()._cdata)
        if found is not None and found.block is not None and found.nbytes == output.nbytes:
            output.block = found.block
            self._other_holders[found.block] += 1

    def _resize(self, func: Any, tensor: Any, found: FollowedStorage, nbytes: int) -> None:
        line = self.lines.caller()
        describe = partial(tensor_held, nbytes, tensor.shape, tensor.dtype, func, line, found)
        grows = nbytes > found.nbytes
        try:
            self._reallocate(found, nbytes, describe)
            if grows and algorithms() == FILLING:
                element = self.memory.allocate(tensor.dtype.itemsize, describe)
                if element is not None:
                    self.memory.free(element)
        except AllocationError as error:
            raise out_of_memory(error) from None

    def _reallocate(self, found: FollowedStorage, nbytes: int, describe: DescribeHeld) -> None:
        """Allocates the new block before it frees the old one, because the data is copied."""
        block = self.memory.allocate(nbytes, describe)
        if found.block is not None:
            self._free(found.block)
        found.block, found.nbytes = block, nbytes

    def _freed(self, found: FollowedStorage) -> None:
        self._storages.pop(found.key, None)
        if found.block is not None:
            found.learn_end()
            self._free(found.block)

    def _free(self, block: DeviceBlock) -> None:
        """Frees a block when the last storage that holds it is gone."""
        if self._other_holders and self._other_holders[block]:
            self._other_holders[block] -= 1
        else:
            self.memory.free(block)
