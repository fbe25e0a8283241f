"""One simulated device: its memory, its values, and the windows in which programs use it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from ...allocator import AllocationError, settings_from
from ...errors import CannotCompute, CannotSimulate, UnknownValue
from ...measurement.protocol import Interval
from ...measurement.values_limit import VALUES_LIMIT, parse_values_limit
from ...profiles import DeviceProfile
from ...torch_releases import minor_version
from ...values.tape import Tape
from ..simulated import torch_distributed
from ..simulated.allocation_lines import LineFinder
from ..simulated.collectives import Collectives
from ..simulated.cudnn_plans import CudnnPlans
from ..simulated.op_plan import AllocationPlan, Planner
from ..simulated.op_rules import plan
from ..simulated.out_of_memory import out_of_memory
from ..simulated.patched import patched
from ..simulated.planned_memory import PlannedMemory
from ..simulated.program_errors import ProgramErrors
from ..simulated.recurrent_ops import weight_patches
from ..simulated.simulated_device import Device
from ..simulated.unknown_scratch import UnknownScratch
from ..simulated.workspaces import workspaces
from ..tracing.tensor_origin import Origins
from .cuda_functions import CudaFunctions
from .known_calls import KnownCalls
from .process import ProcessDevice
from .storage_methods import storage_methods
from .storages import DeviceStorage, ValuesOfStorages


class DeviceSimulation:
    """Runs programs on the device of this process, with the memory of one profile.

    The heap stays between windows, as that of a process does.
    """

    def __init__(
        self, profile: DeviceProfile, process: ProcessDevice, planner: Planner = plan
    ) -> None:
        self.profile = profile
        self.version = version = minor_version(torch.__version__)
        self.plan = planner
        self.calls = KnownCalls()
        self.is_active = False
        self.device_named = False
        """False for a program that names no device: its tensors are all on this one."""
        process.operators.current = self
        self.unknown, self.errors = UnknownScratch(), ProgramErrors()
        self.lines = LineFinder()
        self._process = process
        self._cudnn = CudnnPlans(profile, version, os.environ)
        self.workspace_of_cudnn = self._cudnn.workspace
        self._values = ValuesOfStorages(process.maker, profile)
        self.tape = Tape(self._values, parse_values_limit(VALUES_LIMIT))
        torch_distributed.follow()
        self.device = Device(
            profile, settings_from(os.environ), version, workspaces(profile, version, os.environ)
        )
        self._planned = PlannedMemory(self.device, self.unknown)
        collectives = Collectives(self.errors.assumed, process.maker.is_here)
        collectives.follow(self.tape, nullcontext)
        self.collectives = collectives.replacements()
        self._functions = CudaFunctions(self.device, self._values.default, self, process.maker)

    # What operators ask of it

    def new_storage(self, nbytes: int, shape: tuple[int, ...], dtype: torch.dtype) -> DeviceStorage:
        """Returns a storage without a block."""
        return DeviceStorage(self.device, self._values.forget, nbytes, shape, dtype)

    def allocate(self, func: Any, plan: AllocationPlan, fresh: Sequence[DeviceStorage]) -> None:
        """Allocates the storages that an operator makes, and its scratch, and frees the scratch.

        Raises:
            torch.OutOfMemoryError: they do not fit.
        """
        try:
            self._planned.allocate(plan, fresh, func, self.lines.caller(2))
        except AllocationError as error:
            raise out_of_memory(error) from None

    def resize(self, func: Any, storage: DeviceStorage, nbytes: int) -> None:
        """Gives a storage a block of another size.

        Raises:
            torch.OutOfMemoryError: it does not fit.
        """
        try:
            storage.resize(nbytes, self.lines.caller(2), func)
        except AllocationError as error:
            raise out_of_memory(error) from None

    def mark_unknown(self, op: str) -> None:
        """Records an operator whose scratch no rule knows."""
        self.unknown.mark(op)

    def explain_unknown(self, why: str) -> None:
        """Records why the scratch of a call is unknown whose operator has a rule."""
        self.unknown.explain(why)

    def refuse(self, why: str) -> CannotSimulate:
        """Records why the window's numbers are not enforced, and returns the error to raise."""
        return self.errors.record(why)

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the values of a tensor, on the host; they must not be changed.

        Raises:
            CannotSimulate: nobody can know them.
        """
        if assumption := self.tape.assumption(tensor):
            self.errors.assumed(assumption)
        try:
            return self.tape.value(tensor)
        except (CannotCompute, UnknownValue) as error:
            why = str(error)
        raise self.errors.unknown_values("the program", None, why)

    # Windows

    @contextmanager
    def active(self) -> Iterator[None]:
        """Has programs find this device in the body; nested calls change nothing."""
        if self.is_active:
            yield
            return
        self.errors.clear()
        self._process.operators.current = self
        self.is_active = True
        try:
            default = nullcontext() if self.device_named else self._process.maker.device
            with patched(self._patches()), _scripts_unfused(), default:
                self._functions.hear_seeds()
                yield
        finally:
            self.is_active = False

    def _patches(self) -> dict[tuple[Any, str], Any]:
        return {
            **self._functions.patches(),
            **storage_methods(self._process.operators),
            **torch_distributed.patches(),
            **weight_patches(self.unknown),
        }

    def trace(self, origins: Origins | None) -> None:
        """Searches for modules and roles of tensors too, or no longer."""
        self.lines.trace(origins)

    def start(self) -> None:
        """Begins a window."""
        self.device.begin()
        self.device.recording = True
        self.unknown.clear()
        self.errors.clear()

    def stop(self) -> Interval:
        """Ends the window and returns its numbers."""
        self.device.recording = False
        return self.device.interval(self.errors.first or self.unknown.problem)

    def prime(self) -> int:
        """Allocates the workspaces that a small product leaves behind; returns their bytes."""
        before = self.device.statistics.requested.current
        self.device.prime()
        return self.device.statistics.requested.current - before

    def restart(self) -> None:
        """Empties the device, as in a new process; a tensor that is still alive frees nothing."""
        self.device.restart()
        self.unknown.clear()
        self.errors.clear()
        self._values.default.__init__()  # type: ignore[misc]

    @property
    def offset(self) -> int:
        """Returns the numbers that the device's default generator has drawn since its seed."""
        return self._values.default.offset


@contextmanager
def _scripts_unfused() -> Iterator[None]:
    """Runs scripts operator by operator: the fuser compiles for a device that is not there."""
    before = torch._C._jit_can_fuse_on_gpu()
    torch._C._jit_override_can_fuse_on_gpu(False)
    try:
        yield
    finally:
        torch._C._jit_override_can_fuse_on_gpu(before)
