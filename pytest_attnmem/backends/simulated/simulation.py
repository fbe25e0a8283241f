"""A simulated device, and the context in which programs run on it."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch

from ...allocator import AllocatorSettings
from ...errors import CannotSimulate, UnknownValue
from ...measurement.protocol import Interval
from ...profiles import DeviceProfile
from ...torch_releases import minor_version
from ..tensor_subclasses import construct_past_modes
from ..tracing.tensor_origin import Origins
from . import dlpack, saving, torch_distributed, triton_driver
from .autocast import Autocast
from .blas_settings import BlasSettings
from .child_processes import below_function_modes, in_children
from .collectives import Collectives
from .composite_ops import CompositeOps
from .cudnn_plans import CudnnPlans
from .fake_converter import FakeConverter
from .fake_mode import SimulatedFakeMode
from .function_mode import SimulatedFunctionMode
from .known_calls import known_calls
from .memory_addresses import MemoryAddresses
from .observer import DispatchedOp
from .op_plan import Planner
from .outside import Outside
from .patches import patched_torch
from .placement import Placement
from .program_errors import ProgramErrors, at
from .program_threads import ProgramThreads
from .saving import Saving
from .simulated_device import Device
from .storage_lifetimes import StorageLifetimes
from .storage_methods import StorageMethods
from .torch_cuda import TorchCuda
from .unsimulated import Unsimulated
from .workspaces import workspaces
from .wrapped_tensors import show_devices


class Simulation:
    """Runs programs on fakes and records the memory of their storages on a simulated device."""

    def __init__(self, profile: DeviceProfile, settings: AllocatorSettings, plan: Planner) -> None:
        version = minor_version(torch.__version__)
        self._workspaces = partial(workspaces, profile, version, os.environ)
        self.device = Device(profile, settings, version, self._workspaces())
        self._cudnn = CudnnPlans(profile, version, os.environ)
        self._storages = storages = StorageLifetimes(self.device, plan, self._cudnn.workspace)
        self.block_of, self.after_new = storages.block_of, storages.after_new
        self.mark_unknown, self.record_stream = storages.mark_unknown, storages.record_stream
        self._composite_ops = CompositeOps(profile, self._storages.unknown)
        self._errors, self._saving, self._autocast = ProgramErrors(), Saving(), Autocast()
        errors = self._errors
        self.raised, self.assumed, self.refused = errors.raised, errors.assumed, errors.record
        self._collectives = Collectives(self.assumed)
        self._fake_mode = SimulatedFakeMode(
            self,
            {**self._composite_ops.replacements(), **self._collectives.replacements()},
            known_calls(profile, version, plan),
        )
        self.values = self._fake_mode.values
        self._collectives.follow(self.values.tape, self._fake_mode.unobserved)
        self._composite_ops.fake_mode = self._fake_mode
        self._converter = FakeConverter(self._fake_mode, self._storages.add_input, self.values)
        self._function_mode = SimulatedFunctionMode(self._fake_mode, self._converter, storages)
        self._addresses = MemoryAddresses(storages, self.values)
        self._storage_methods = StorageMethods(
            self._fake_mode, storages, self.values, self._addresses
        )
        numbers = self.values.storages.numbers
        self._torch_cuda = TorchCuda(self.device, numbers.default, self.refused)
        self._blas_settings = BlasSettings(self._workspaces())
        self._depth, self.traced = 0, False
        self.placement = Placement(self._fake_mode, self._errors.record)
        self.mixed_devices_error = self.placement.mixed
        self.device_named = self.placement.device_named
        self._unsimulated = Unsimulated(self._errors, self.placement)
        self._threads = ProgramThreads(self._fake_mode, self._function_mode, self.placement)
        self._storages.planned.in_other_thread = self._threads.is_own
        if not self._fake_mode.autograd_calls.is_warm:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of PyTorch's own imports
                with self.active():
                    self._fake_mode.autograd_calls.warm_up()
        torch_distributed.follow()
        triton_driver.follow()
        show_devices()
        construct_past_modes()
        self.restart()

    def outside(self) -> Outside:
        """Returns the device as a session's programs see it outside windows."""
        outside = Outside(
            self._fake_mode,
            self._function_mode,
            self._torch_cuda,
            self._storage_methods.patches,
            self._composite_ops.install,
        )
        self.join(outside)
        return outside

    def join(self, outside: Outside) -> None:
        """Takes part in a session whose programs see that device outside windows."""
        self.placement.join(outside)
        self._converter.in_session = self._storages.outside = True
        outside.programs.append((self.placement, self._converter))

    @contextmanager
    def active(self) -> Iterator[None]:
        """Makes PyTorch use the simulated device for the body; nested calls change nothing."""
        if self._depth:
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
            return
        self._errors.clear()
        outside = self.placement.outside
        self._storages.readmit()
        with ExitStack() as window:
            if outside is not None:
                window.enter_context(outside.left())
            window.enter_context(
                patched_torch(
                    self._fake_mode,
                    self._function_mode,
                    self._torch_cuda,
                    self._composite_ops,
                    self._autocast,
                    {**self._patches(), **in_children(partial(self._leave_in_child, window))},
                )
            )
            self.placement.enter()
            self._storages.outside, self._depth = False, 1
            try:
                yield
            finally:
                self._depth = 0
                starts_again = bool(self.placement.starts_again)
                self._unsimulated.end(starts_again or not self._fake_mode.device_named)
                with torch._C.DisableTorchFunction(), no_dispatch():  # no memory of the device
                    self.values.storages.numbers.leave(starts_again=starts_again)
                self._storages.outside = outside is not None
                self.placement.leave()
                self._torch_cuda.restart()

    def _leave_in_child(self, window: ExitStack) -> None:
        """Ends the window in a process that the program started: it has no device."""
        self._depth, self._storages.outside = 0, True
        self.placement.leave()
        if not self._threads.leave_in_child():
            with below_function_modes(self._function_mode):
                window.close()

    def _patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the patches that note what no simulation follows, by owner and name."""
        return {
            **self._unsimulated.patches(),
            **self._threads.patches(),
            **self._blas_settings.replacements(),
            **self._storage_methods.patches(),
            **saving.patches(),
            **dlpack.patches(self._function_mode.to_fakes),
            **self.values.patches(),
            **torch_distributed.patches(),
        }

    def prime(self) -> int:
        """Allocates the workspaces of both threads' handles; returns their bytes."""
        self._primed = True
        self.device.workspaces = self._workspaces()  # a session may configure them meanwhile
        before = self.device.statistics.allocated.current
        self.device.prime()
        self._storages.readmit()  # tensors of fixtures come after what the libraries took
        return self.device.statistics.allocated.current - before

    def restart(self, device_named: bool = False, unlimited: bool = False) -> None:
        """Empties the device, as in a new process."""
        self.placement.restart(device_named)
        self._primed = False
        self.device.workspaces = self._workspaces()
        self.device.restart(unlimited)
        self._storages.restart()
        self._collectives.restart()
        self._converter.clear()

    def keep(self) -> None:
        """Takes the tensors that a session's test left alive for inputs of later tests."""
        if self.placement.outside is not None:
            self.placement.outside.settle()
            self._storages.keep(device_named=not self.placement.may_start_again)
            self.device.keep_workspaces()

    # The recorder

    def trace(self, origins: Origins | None) -> None:
        """Searches for modules and roles of tensors too, or no longer."""
        self._storages.lines.trace(origins)
        self.traced = origins is not None

    def start(self) -> None:
        """Begins a window."""
        if self.placement.starts_again:  # restore the state before the program ran
            primed = self._primed
            self.restart(device_named=True)
            if primed:
                self.prime()
        self.device.begin()
        self.device.recording = True
        self._storages.unknown.clear()
        self._errors.clear()
        self._unsimulated.start()
        self._threads.start()
        self._blas_settings.begin()

    def stop(self) -> Interval:
        """Ends the window and returns its numbers."""
        other_thread = self._threads.stop()
        self.device.recording = False
        return self.device.interval(self._problem() or other_thread)

    def _problem(self) -> str | None:
        if problem := self._unsimulated.problem():
            return problem
        if self._errors.first:
            return self._errors.first
        return self._storages.unknown.problem or self._blas_settings.problem

    # The observer of the fake mode

    def after_op(self, op: DispatchedOp) -> None:
        """Counts the memory of an operator that ran."""
        if self._storages.outside and op.func._schema.is_mutable:
            call = f"{op.func}, which writes into a tensor of the CPU,"
            self._converter.write_to_host(op, partial(self.value, call=call))
        self._storages.after_op(op)
        if self.traced:
            self._storages.lines.note()
            self._storages.learn_roles(op)

    def to_fake(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the fake of a tensor that reached an operator past the function mode."""
        if self._storages.outside:
            return self._converter.to_host_fake(tensor)  # type: ignore[no-any-return]
        if tensor.requires_grad:
            named = f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
            raise self._errors.record(
                f"a tensor {named} from outside the window, which requires a gradient, reached an"
                f" operator of C++ code{at()}; make it inside"
            )
        return self._converter.to_fake(tensor)  # type: ignore[no-any-return]

    def value(self, tensor: torch.Tensor, call: str, *, shared: bool = False) -> torch.Tensor:
        """Returns the values of a tensor that the program reads by ``call``, on the host.

        If ``shared``, it is the tensor's memory, which the program may write; else not to change.

        Raises:
            CannotSimulate: nobody can know them.
        """
        try:
            if shared:
                self.values.give_away(tensor)
            return self.values.value(tensor)
        except UnknownValue as error:
            raise self.no_data_error(call, str(error)) from None

    def address(self, tensor: torch.Tensor) -> int:
        """Returns the address of a tensor's first element: that of its block on the device."""
        try:
            return self._addresses.of_tensor(tensor)
        except UnknownValue as error:
            raise self.no_data_error("Tensor.data_ptr", str(error)) from None

    def reduced(self, tensor: torch.Tensor, protocol: int) -> Any:
        """Returns what ``pickle`` writes of a tensor: the values, and the device.

        Raises:
            CannotSimulate: nobody can know the values.
        """
        with self._fake_mode.in_turn():  # ``pickle`` comes here past the function mode
            values = self.value(tensor, "pickling a tensor, as torch.save does,")
            return self._saving.reduced(tensor, values, self.values.writer(tensor), protocol)

    def no_data_error(self, call: str = "", why: str = "") -> CannotSimulate:
        """Returns the error for a program that reads values which are not known."""
        return self._errors.unknown_values(call, self._fake_mode.current_call[0], why)
