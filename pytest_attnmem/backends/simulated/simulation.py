"""One simulated device and the world of the programs that run on it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch._dynamo import eval_frame

from ...allocator import AllocatorSettings
from ...errors import CannotSimulate, StartAgain
from ...measurement.held import Held
from ...measurement.protocol import Interval
from ...profiles import DeviceProfile
from ..cpu_threads import ThreadWatch
from ..tracing.dispatch_tracker import caller
from .autocast import Autocast
from .composite_ops import CompositeOps
from .cublas_workspace import workspace_bytes
from .fake_converter import FakeConverter
from .fake_mode import SimulatedFakeMode
from .fake_tensor import DEVICE, PRINTING
from .function_mode import SimulatedFunctionMode
from .op_cache import CachedOp
from .op_plan import Planner
from .patches import surroundings
from .simulated_device import BACKWARD, MAIN, Device
from .storage_lifetimes import StorageLifetimes
from .torch_cuda import TorchCuda

_SHOWN = 20


class Simulation:
    """Runs programs on fakes and tells its device of their storages; a gauge reads the device."""

    def __init__(self, profile: DeviceProfile, settings: AllocatorSettings, plan: Planner) -> None:
        self.device = Device(profile, settings)
        self._lifetimes = StorageLifetimes(self.device, plan)
        self._composites = CompositeOps(profile, self._lifetimes.note)
        self._world = SimulatedFakeMode(self, self._composites.replacements())
        self._composites.world = self._world
        self._adoption = FakeConverter(self._world, self._lifetimes.admit)
        self._translation = SimulatedFunctionMode(
            self._world, self._adoption, self._lifetimes.resized
        )
        self._interface = TorchCuda(self.device)
        self._autocast = Autocast()
        self._entered = 0
        self._refusals: list[str] = []
        self._compiled = False
        self._threads = False
        self.starts_again = ""
        """Why the next stretch begins as in a new process."""
        self._watch = ThreadWatch()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what PyTorch says of its own imports
            with self.surroundings():
                self._world.rehearse()
        self.restart()

    @property
    def undecided(self) -> bool:
        """True while tensors are on the device because the program has named none so far."""
        return self._world.unplaced and not self._world.placing

    @contextmanager
    def surroundings(self) -> Iterator[None]:
        """Where a program finds the simulated device; inside itself, nothing more."""
        if self._entered:
            self._entered += 1
            try:
                yield
            finally:
                self._entered -= 1
            return
        self._refusals.clear()
        replaced = {**self._without_compiler(), **self._watching_threads()}
        with surroundings(
            self._world,
            self._translation,
            self._interface,
            self._composites,
            self._autocast,
            replaced,
        ):
            self._entered = 1
            try:
                yield
            finally:
                self._entered = 0
                self._interface.restart()

    def prime(self) -> int:
        """Give both threads' handles their workspaces; bytes that they take."""
        self._primed = True
        before = self.device.statistics.allocated.current
        nbytes = workspace_bytes(self.device.profile)
        for thread in (MAIN, BACKWARD):
            self.device.workspace("cublas", thread, nbytes, _no_tensor)
        return self.device.statistics.allocated.current - before

    def restart(self, placing: bool = False, endless: bool = False) -> None:
        """As in a new process, with nothing on the device."""
        self._world.placing, self._world.unplaced = placing, False
        self._primed, self.starts_again = False, ""
        self.device.restart(endless)
        self._lifetimes.restart()
        self._adoption.forget()

    def record(self, program: Callable[[], object]) -> tuple[list[Held | int], str | None]:
        """Births and deaths of a program that finds all as it was, and why not to believe them."""
        try:
            return self._recorded(program, placing=False)
        except StartAgain:
            return self._recorded(program, placing=True)

    def _recorded(
        self, program: Callable[[], object], placing: bool
    ) -> tuple[list[Held | int], str | None]:
        self.restart(placing)
        self.prime()
        self._adoption.forget()
        with self.surroundings():
            self.start()
            try:
                result = program()
                events = [*self.device.events()]
            finally:
                problem = self.stop().problem
        del result
        return events, problem

    # The gauge

    def trace(self, traced: bool) -> None:
        """Find the modules and roles of tensors as well from now on, or no more."""
        self._lifetimes.lines.trace(traced)

    def start(self) -> None:
        """Begin a stretch."""
        if self.starts_again:  # with all as it was before
            primed = self._primed
            self.restart(placing=True)
            if primed:
                self.prime()
        self.device.begin()
        self.device.listening = True
        self._lifetimes.unknown.clear()
        self._refusals.clear()
        self._compiled = self._threads = False
        self._watch.start()

    def stop(self) -> Interval:
        """What happened in it."""
        ran = self._watch.stop()
        self.device.listening = False
        problem = self._problem()
        if ran is not None:
            problem = problem or "a thread ran meanwhile, and the test's own alone is simulated"
        return self.device.stretch(problem)

    def _problem(self) -> str | None:
        if self._compiled:
            return "compiled code cannot be simulated"
        if self._threads:
            return "a thread was started, and the test's own alone is simulated"
        if self._refusals:
            return self._refusals[0]
        unknown = [*self._lifetimes.unknown]
        if unknown:
            more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
            return f"no model of {', '.join(unknown[:_SHOWN])}{more}"
        return None

    # What the world tells

    def ran(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        out: Any,
        inherits: bool,
        recalled: CachedOp | None,
    ) -> None:
        """An operator ran."""
        self._lifetimes.after(func, args, kwargs, out, inherits, recalled)
        if self._lifetimes.lines.traced:
            self._lifetimes.learn_roles(args, out)

    def note(self, what: str) -> None:
        """Nobody knows what ``what`` allocates."""
        self._lifetimes.note(what)

    def used_on(self, tensor: torch.Tensor, stream: int) -> None:
        """Another stream uses a tensor; its memory is not to be had before that is done."""
        block = self._lifetimes.block(tensor)
        if block is not None:
            self.device.allocator.record_stream(block.address, stream)

    def adopted(self, tensor: torch.Tensor) -> torch.Tensor:
        """A tensor from outside came to an operator, by a way on which it could not be seen."""
        if tensor.requires_grad:
            named = f"{list(tensor.shape)} {str(tensor.dtype).removeprefix('torch.')}"
            raise self._remember(
                f"a tensor {named} from outside the window, which requires a gradient, came to an"
                f" operator of C++ code{_at()}; make it inside"
            )
        fake: torch.Tensor = self._adoption.adopted(tensor)
        return fake

    def refusal(self, what: str = "") -> CannotSimulate:
        """The error for a program that asks for values."""
        if what == PRINTING and self._refusals:  # by who tells what went wrong before
            return CannotSimulate(self._refusals[0])
        what = what or _named(self._translation.calling)
        return self._remember(
            f"{what} needs the values of a tensor{_at()}, and a simulated one has none; use"
            " backend='cpu' for this test"
        )

    def mixture(self, func: Any) -> CannotSimulate:
        """Returns the error for an operator that got tensors of the host and of the device."""
        return self._remember(
            f"{func} got a tensor of the CPU and one of {DEVICE}{_at()}; put both on one device"
        )

    def named(self) -> None:
        """Take note that the program names the device: its other tensors belong on the host.

        Raises:
            StartAgain: tensors without a named device are on the device already.
        """
        world = self._world
        if not world.placing:
            world.placing = True
            if world.unplaced:
                found = f"'cuda' is named{_at()}, after tensors were made without a device"
                self.starts_again = found
                self._remember(
                    f"{found}, and this run cannot start again; name the device of each tensor"
                )
                raise StartAgain(found)

    def _remember(self, text: str) -> CannotSimulate:
        self._refusals.append(text)
        return CannotSimulate(text)

    def _without_compiler(self) -> dict[tuple[Any, str], Any]:
        """Let what is compiled run eagerly, and know that it did."""
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

    def _watching_threads(self) -> dict[tuple[Any, str], Any]:
        """Know of threads: what they do is real, and not seen."""
        original = threading.Thread.start

        def start(thread: threading.Thread) -> None:
            self._threads = True
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


def _no_tensor() -> Any:
    return Held(0, (), "", "workspace", "")
