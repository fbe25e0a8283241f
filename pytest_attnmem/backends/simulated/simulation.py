"""A simulated device, and the context in which programs run on it."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo import eval_frame

from ...allocator import AllocatorSettings
from ...errors import CannotSimulate, StartAgain
from ...measurement.held import Held
from ...measurement.protocol import Interval
from ...profiles import DeviceProfile
from ...torch_releases import minor_version
from ..cpu_threads import ThreadWatch
from ..tracing.dispatch_tracker import caller
from .autocast import Autocast
from .blas_settings import BlasSettings
from .composite_ops import CompositeOps
from .fake_converter import FakeConverter
from .fake_mode import SimulatedFakeMode
from .fake_tensor import DEVICE, PRINTING
from .function_mode import SimulatedFunctionMode
from .observer import DispatchedOp
from .op_plan import Planner
from .patches import patched_torch
from .simulated_device import Device
from .storage_lifetimes import StorageLifetimes
from .torch_cuda import TorchCuda
from .workspaces import workspaces

_SHOWN = 20
_OWN_THREAD = "only the test's own thread is simulated"


class Simulation:
    """Runs programs on fakes and records the memory of their storages on a simulated device."""

    def __init__(self, profile: DeviceProfile, settings: AllocatorSettings, plan: Planner) -> None:
        version = minor_version(torch.__version__)
        libraries = workspaces(profile, version, os.environ)
        self.device = Device(profile, settings, version, libraries)
        self._storages = StorageLifetimes(self.device, plan)
        self._composite_ops = CompositeOps(profile, self._storages.mark_unknown)
        self._fake_mode = SimulatedFakeMode(self, self._composite_ops.replacements())
        self._composite_ops.fake_mode = self._fake_mode
        self._converter = FakeConverter(self._fake_mode, self._storages.add_input)
        self._function_mode = SimulatedFunctionMode(
            self._fake_mode, self._converter, self._storages.storage_resized
        )
        self._torch_cuda = TorchCuda(self.device)
        self._autocast = Autocast()
        self._blas_settings = BlasSettings(libraries)
        self._depth = 0
        self._errors: list[str] = []
        self._compiled = False
        self._thread_started = False
        self.starts_again = ""
        """The reason why the next window restarts the device; empty if it does not."""
        self._thread_watch = ThreadWatch()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch's own imports
            with self.active():
                self._fake_mode.warm_up()
        self.restart()

    @property
    def may_start_again(self) -> bool:
        """Returns True while tensors are on the device only because the program named none."""
        return self._fake_mode.used_implicit_device and not self._fake_mode.device_named

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
        patches = {
            **self._noting_compilation(),
            **self._noting_threads(),
            **self._blas_settings.replacements(),
        }
        with patched_torch(
            self._fake_mode,
            self._function_mode,
            self._torch_cuda,
            self._composite_ops,
            self._autocast,
            patches,
        ):
            self._depth = 1
            try:
                yield
            finally:
                self._depth = 0
                self._torch_cuda.restart()

    def prime(self) -> int:
        """Allocates the workspaces of both threads' handles; returns their bytes."""
        self._primed = True
        before = self.device.statistics.allocated.current
        self.device.prime()
        return self.device.statistics.allocated.current - before

    def restart(self, device_named: bool = False, unlimited: bool = False) -> None:
        """Empties the device, as in a new process."""
        self._fake_mode.device_named, self._fake_mode.used_implicit_device = device_named, False
        self._primed, self.starts_again = False, ""
        self.device.restart(unlimited)
        self._storages.restart()
        self._converter.clear()

    def record(self, program: Callable[[], object]) -> tuple[list[Held | int], str | None]:
        """Runs a program on an empty device; returns its events and a reason to distrust them.

        An event is an allocation, or the number of the allocation that is freed.
        """
        try:
            return self._recorded(program, device_named=False)
        except StartAgain:
            return self._recorded(program, device_named=True)

    def _recorded(
        self, program: Callable[[], object], device_named: bool
    ) -> tuple[list[Held | int], str | None]:
        self.restart(device_named)
        self.prime()
        self._converter.clear()
        with self.active():
            self.start()
            try:
                result = program()
                events = [*self.device.events()]
            finally:
                problem = self.stop().problem
        del result
        return events, problem

    # The recorder

    def trace(self, traced: bool) -> None:
        """Turns the search for modules and roles of tensors on or off."""
        self._storages.lines.trace(traced)

    def start(self) -> None:
        """Begins a window."""
        if self.starts_again:  # restore the state before the program ran
            primed = self._primed
            self.restart(device_named=True)
            if primed:
                self.prime()
        self.device.begin()
        self.device.recording = True
        self._storages.unknown.clear()
        self._errors.clear()
        self._blas_settings.begin()
        self._compiled = self._thread_started = False
        self._thread_watch.start()

    def stop(self) -> Interval:
        """Ends the window and returns its numbers."""
        other_thread = self._thread_watch.stop()
        self.device.recording = False
        problem = self._problem()
        if other_thread is not None:
            problem = problem or f"another thread ran, and {_OWN_THREAD}"
        return self.device.interval(problem)

    def _problem(self) -> str | None:
        if self._compiled:
            return "compiled code cannot be simulated"
        if self._thread_started:
            return f"the test started a thread, and {_OWN_THREAD}"
        if self._errors:
            return self._errors[0]
        unknown = [*self._storages.unknown]
        if unknown:
            more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
            return f"no model of {', '.join(unknown[:_SHOWN])}{more}"
        return self._blas_settings.problem

    # The observer of the fake mode

    def after_op(self, op: DispatchedOp) -> None:
        """Counts the memory of an operator that ran."""
        self._storages.after_op(op)
        if self._storages.lines.traced:
            self._storages.learn_roles(op)

    def mark_unknown(self, op: str) -> None:
        """Records that no model knows what ``op`` allocates."""
        self._storages.mark_unknown(op)

    def record_stream(self, tensor: torch.Tensor, stream: int) -> None:
        """Keeps a tensor's memory from reuse until the other stream is done with it."""
        block = self._storages.block(tensor)
        if block is not None:
            self.device.allocator.record_stream(block.address, stream)

    def to_fake(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the fake of a tensor that reached an operator past the function mode."""
        if tensor.requires_grad:
            named = f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
            raise self._record_error(
                f"a tensor {named} from outside the window, which requires a gradient, reached an"
                f" operator of C++ code{_at()}; make it inside"
            )
        fake: torch.Tensor = self._converter.to_fake(tensor)
        return fake

    def no_data_error(self, call: str = "") -> CannotSimulate:
        """Returns the error for a program that reads values."""
        if call == PRINTING and self._errors:  # an error report prints the tensors of its error
            return CannotSimulate(self._errors[0])
        call = call or _named(self._function_mode.current_call)
        return self._record_error(
            f"{call} needs the values of a tensor{_at()}, and a simulated tensor has none; use"
            " backend='cpu' for this test"
        )

    def mixed_devices_error(self, func: Any) -> CannotSimulate:
        """Returns the error for an operator that got tensors of the host and of the device."""
        return self._record_error(
            f"{func} got a tensor of the CPU and one of {DEVICE}{_at()}; put both on one device"
        )

    def device_named(self) -> None:
        """Records that the program names the device, so that its other tensors are on the host.

        Raises:
            StartAgain: tensors without a named device are on the device already.
        """
        fake_mode = self._fake_mode
        if not fake_mode.device_named:
            fake_mode.device_named = True
            if fake_mode.used_implicit_device:
                found = f"'cuda' is named{_at()}, after tensors were made without a device"
                self.starts_again = found
                self._record_error(
                    f"{found}, and this run cannot start again; name the device of each tensor"
                )
                raise StartAgain(found)

    def _record_error(self, text: str) -> CannotSimulate:
        self._errors.append(text)
        return CannotSimulate(text)

    def _noting_compilation(self) -> dict[tuple[Any, str], Any]:
        """Returns patches that run compiled functions eagerly and note that they ran."""
        decide = eval_frame._callback_from_stance

        def eager(callback: Any) -> Any:
            if decide(callback) not in (None, False):
                self._compiled = True
            return None

        def compile(model: Any = None, **options: Any) -> Any:
            if not options.get("disable") and options.get("backend") != "eager":
                self._compiled = True
            return (lambda function: function) if model is None else model

        return {(eval_frame, "_callback_from_stance"): eager, (torch, "compile"): compile}

    def _noting_threads(self) -> dict[tuple[Any, str], Any]:
        """Returns patches that note when a thread starts, because threads are not simulated."""
        original = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            self._thread_started = True
            original(thread)

        return {(threading.Thread, "start"): start}


def _named(function: Any) -> str:
    name = getattr(function, "__name__", None)
    if name is None:
        return "this"
    owner = getattr(function, "__objclass__", None)
    return f"Tensor.{name}" if owner is not None or name.startswith("__") else f"torch.{name}"


def _at() -> str:
    where = caller()
    return f" at {where}" if where else ""
