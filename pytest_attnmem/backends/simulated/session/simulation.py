"""One simulated device: its memory, its values, and the windows in which programs use it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import torch

from ....allocator import AllocationError, settings_from
from ....errors import CannotCompute, CannotSimulate, UnknownValue
from ....measurement.protocol import Interval
from ....profiles import DeviceProfile
from ....torch_releases import minor_version
from ..convolution.cudnn_choices import weight_patches
from ..convolution.cudnn_plans import CudnnPlans
from ..memory.planned_memory import PlannedMemory, UnknownScratch
from ..memory.simulated_device import Device
from ..memory.storages import DeviceStorage, LineFinder
from ..operators.collectives import Collectives, distributed_patches, follow_distributed
from ..operators.known_calls import KnownCalls
from ..operators.operators import storage_methods
from ..patched import patched
from ..program_errors import ProgramErrors
from ..scratch.op_plan import AllocationPlan, CudnnWorkspace, Planner
from ..scratch.workspaces import workspaces
from ..torch_cuda.compiled_code import CompiledCode
from ..torch_cuda.cuda_functions import CudaFunctions
from .outside_tensors import OutsideTensors
from .placement import Placement
from .process import ProcessDevice

_UNITS: Final = MappingProxyType({10: "KiB", 20: "MiB", 30: "GiB"})
_ADVICE: Final = (
    "If reserved but unallocated memory is large try setting"
    " PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation"
    " for Memory Management "
    " (https://docs.pytorch.org/docs/stable/notes/cuda.html"
    "#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)"
)


def out_of_memory(error: AllocationError) -> torch.OutOfMemoryError:
    """Returns the error with the text of PyTorch, for programs that read it.

    See ``CUDACachingAllocator.cpp``; the memory of other processes is left out.
    """
    asked, capacity, free, allocated, pieces = map(
        _size,
        (
            *(error.segment, error.capacity, error.free, error.allocated),
            error.reserved - error.allocated,
        ),
    )
    if error.asked >= 1 << 60:
        return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate more than 1EB memory.")
    return torch.OutOfMemoryError(
        f"CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of {capacity}"
        f" of which {free} is free. Of the allocated memory {allocated} is allocated by PyTorch,"
        f" and {pieces} is reserved by PyTorch but unallocated. {_ADVICE}"
    )


def _size(nbytes: int) -> str:
    """Returns bytes as ``c10::CachingAllocator::format_size`` writes them."""
    if nbytes <= 1 << 10:
        return f"{nbytes} bytes"
    exponent = min(30, (nbytes - 1).bit_length() - 1) // 10 * 10
    return f"{nbytes / (1 << exponent):.2f} {_UNITS[exponent]}"


class DeviceSimulation:
    """Runs programs on the device of this process, with the memory of one profile.

    The heap stays between windows, as that of a process does.
    """

    def __init__(self, profile: DeviceProfile, process: ProcessDevice, planner: Planner) -> None:
        self.profile = profile
        self.version = version = minor_version(torch.__version__)
        self.plan = planner
        self.calls = KnownCalls()
        self._is_primed = False
        """True if the libraries have their workspaces."""
        self._thread = 0
        """The thread of the window."""
        self.inside = False
        """True in a window, where the program that is measured runs."""
        self.made_outside = False
        """True once code outside windows has made a tensor of the device."""
        self.is_shown = False
        """True while a session shows the device to all its code."""
        running: Any = getattr(process.operators, "current", None)
        if not (process.operators.is_shown or (running is not None and running.inside)):
            process.operators.current = self
        self.unknown, self.errors = UnknownScratch(), ProgramErrors()
        self.mark_unknown: Callable[[str], None] = self.unknown.mark
        self.explain_unknown: Callable[[str], None] = self.unknown.explain
        self.refuse: Callable[[str], CannotSimulate] = self.errors.record
        self.lines = LineFinder()
        self.learn: Callable[[Sequence[Any], Any], None] | None = None
        """Learns of each operator that ran, in a traced run."""
        self._process = process
        self._cudnn = CudnnPlans(profile, version, os.environ)
        self.workspace_of_cudnn: CudnnWorkspace = self._cudnn.workspace
        self._values, self.tape = process.values, process.tape
        self._drawn = self._values.default.seed, self._values.default.offset
        outside = OutsideTensors(process.maker, self.tape, self._new_older, self.errors.record)
        self.placement = Placement(process.maker.device, self.errors.record, outside, self.read)
        self._compiled = CompiledCode(self.errors.record, lambda: self.placement.named)
        follow_distributed()
        self.device = Device(
            profile, settings_from(os.environ), version, workspaces(profile, version, os.environ)
        )
        self._planned = PlannedMemory(self.device, self.unknown)
        self._planned.in_other_thread = self._in_other_thread
        collectives = Collectives(self.tape, self.errors.assumed, process.maker.is_here)
        self.collectives = collectives.replacements()
        self._functions = CudaFunctions(
            self.device, self._values.default, self.errors.record, process.maker
        )

    def name_device(self) -> None:
        """Takes the program for one that names the device: its other tensors are on the host."""
        self.placement.named = True

    @property
    def is_active(self) -> bool:
        """Returns True where programs may make tensors of the device."""
        return self.inside or self.is_shown

    # What operators ask of it

    def new_storage(self, nbytes: int, shape: tuple[int, ...], dtype: torch.dtype) -> DeviceStorage:
        """Returns a storage without a block."""
        return DeviceStorage(self.device, self._values.forget, nbytes, shape, dtype)

    def _new_older(self, nbytes: int) -> DeviceStorage:
        """Returns a storage from before the window, whose free lowers the level.

        Raises:
            torch.OutOfMemoryError: it does not fit.
        """
        made = DeviceStorage(self.device, self._values.forget, nbytes, (nbytes,), torch.uint8)
        try:
            made.block = self.device.add_older(nbytes)
        except AllocationError as error:
            raise out_of_memory(error) from None
        return made

    def allocate(self, func: Any, plan: AllocationPlan, fresh: Sequence[DeviceStorage]) -> None:
        """Allocates the storages that an operator makes, and its scratch, and frees the scratch.

        Raises:
            torch.OutOfMemoryError: they do not fit.
        """
        if not self.inside and not any(
            argument.type.isSubtypeOf(torch.TensorType.get()) for argument in func._schema.arguments
        ):
            self.made_outside = True  # an operator of tensors finds them there
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

    def read(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the values of a tensor, on the host; they must not be changed.

        Raises:
            CannotSimulate: nobody can know them.
        """
        if assumption := self.tape.assumption(tensor):
            self.errors.assumed(assumption)
        try:
            return self.tape.value_of(tensor)
        except (CannotCompute, UnknownValue) as error:
            why = str(error)
        raise self.errors.unknown_values(why)

    def _in_other_thread(self) -> bool:
        """Returns True in a thread that a program started; its handles are its own."""
        return self.inside and threading.get_ident() != self._thread

    # Windows

    @contextmanager
    def active(self) -> Iterator[None]:
        """Has programs find this device in the body; nested calls change nothing."""
        if self.inside:
            yield
            return
        operators = self._process.operators
        before, operators.current = operators.current, self
        self.errors.clear()
        # A session has PyTorch keep workspaces once it begins, by the environment.
        self.device.workspaces = workspaces(self.profile, self.version, os.environ)
        if self.placement.starts_again:  # what its first run left is on no device
            self.device.restart()
            if self._is_primed:
                self.prime()
        self._draw_as_before(again=bool(self.placement.starts_again))
        self.placement.begin_run()
        self.inside, self._thread = True, threading.get_ident()
        try:
            with patched(self.patches()), self._process.running():
                self._functions.hear_seeds()
                with self.placement.entered():
                    yield
        finally:
            self.inside = False
            operators.current = before

    def _draw_as_before(self, *, again: bool) -> None:
        """Keeps the state of the default generator; a program that starts again finds it."""
        state = self._values.default
        if again:
            state.seed, state.offset = self._drawn
        self._drawn = state.seed, state.offset

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns what stands in PyTorch's place where programs see the device, by name."""
        return {
            **self._functions.patches(),
            **storage_methods(self._process.operators),
            **distributed_patches(),
            **weight_patches(self.unknown),
            **self._compiled.patches(),
            **self._process.patches(),
        }

    def start(self) -> None:
        """Begins a window."""
        self.device.begin()
        self.device.recording = True
        self.unknown.clear()
        self.errors.clear()
        self._compiled.clear()

    def stop(self) -> Interval:
        """Ends the window and returns its numbers."""
        self.device.recording = False
        problem = self.errors.first or self._compiled.problem or self.unknown.problem
        return self.device.interval(problem)

    def prime(self) -> int:
        """Allocates the workspaces that a small product leaves behind; returns their bytes."""
        self._is_primed = True
        before = self.device.statistics.requested.current
        self.device.prime()
        return self.device.statistics.requested.current - before

    def restart(self) -> None:
        """Empties the device, as in a new process; a tensor that is still alive frees nothing."""
        self.device.restart()
        self._is_primed = False
        self.unknown.clear()
        self.errors.clear()
        self.placement.restart()
        self._values.default.__init__()  # type: ignore[misc]

    @property
    def offset(self) -> int:
        """Returns the numbers that the device's default generator has drawn since its seed."""
        return self._values.default.offset
