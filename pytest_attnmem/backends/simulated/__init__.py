"""Runs a program on tensors without data, as a CUDA device would hold them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING

import torch

from ...allocator import settings_from
from ...errors import BackendUnavailable
from ...measurement.protocol import Interval, Recorder
from ...profiles import DEFAULT_PROFILE, DeviceProfile, find_profile
from ..tracing.dispatch_tracker import raised_at
from .fake_tensor import DEVICE
from .op_plan import AllocationPlan, OpCall, Output, Planner

if TYPE_CHECKING:
    from .simulation import Simulation


class Simulated:
    """A CUDA device that nobody has."""

    device: str = DEVICE
    computes = False

    def __init__(self, profile: DeviceProfile, plan: Planner | None = None) -> None:
        from . import scratch
        from .simulation import Simulation

        self.profile = profile
        self.name = f"simulated:{profile.name}"
        self._simulation = Simulation(profile, settings_from(os.environ), plan or scratch.plan)

    @property
    def kinds(self) -> tuple[str, ...]:
        """``simulated``, ``sm80`` and ``cuda``."""
        major, minor = self.profile.compute_capability
        return ("simulated", f"sm{major}{minor}", "cuda")

    @property
    def symbols(self) -> Mapping[str, int]:
        """None: formulas read nothing of the device."""
        return {}

    def world(self) -> AbstractContextManager[None]:
        """Where the programs run that are measured."""
        return self._simulation.surroundings()

    @property
    def starts_again(self) -> str:
        """Why the program must start again, though it caught the error that says so."""
        return self._simulation.starts_again

    def lookahead(self) -> AbstractContextManager[None] | None:
        """Returns a world without limits while a program may still come to name the device.

        Tensors that it made without a device are on the host then, and needed nothing.
        """
        return self._ahead() if self._simulation.undecided else None

    @contextmanager
    def _ahead(self) -> Iterator[None]:
        self._simulation.restart(endless=True)
        self.prime()
        try:
            with self.world():
                yield
        finally:
            if not self.starts_again:  # or the next stretch begins as in a new process anyway
                self.forget()

    def prime(self) -> int:
        """Give the libraries' handles their workspaces, as on a device that was used before."""
        return self._simulation.prime()

    def gauge(self) -> Recorder:
        """The simulated device itself."""
        return self._simulation

    def forget(self, primed: bool = True) -> None:
        """Another test: another process, with nothing on the device but what priming leaves."""
        self._simulation.restart()
        if primed:
            self._simulation.prime()

    def tracer(self) -> Recorder:
        """Returns the gauge, which knows the tensors anyway; traced, it knows their modules too."""
        return _Tracing(self._simulation)

    def empty_cache(self) -> None:
        """Give unused segments back."""
        self._simulation.device.allocator.empty_cache()

    def out_of_memory(self, error: BaseException) -> str | None:
        """``needs 20.0 GiB more at attn.py:5``, when it did not fit."""
        if not isinstance(error, torch.OutOfMemoryError):
            return None
        return self._simulation.device.refused or f"it does not fit{raised_at(error)}"


class _Tracing:
    """The gauge of a simulation that looks for modules and roles while it is on."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation

    def start(self) -> None:
        self._simulation.trace(True)
        self._simulation.start()

    def stop(self) -> Interval:
        stretch = self._simulation.stop()
        self._simulation.trace(False)
        return stretch


def program_only(call: OpCall) -> AllocationPlan:
    """The tensors of the program, as large as CUDA makes them, and no scratch of its operators."""
    from . import scratch

    known = scratch.plan(call)
    if known is None:
        return tuple(map(Output, range(len(call.outputs))))
    return tuple(step for step in known if isinstance(step, Output))


def open_backend(argument: str, profiles: Iterable[DeviceProfile] = ()) -> Simulated:
    """The device of that name, of ``profiles`` too, or an A100 of 80 GB.

    Raises:
        BackendUnavailable: there is no such profile, or this torch cannot run programs on fakes.
    """
    profile = find_profile(argument or DEFAULT_PROFILE, profiles)
    try:
        return Simulated(profile)
    except (ImportError, AttributeError) as error:
        raise BackendUnavailable(
            f"backend 'simulated' is written for torch 2.13, and torch {torch.__version__} lacks"
            f" what it needs: {error}"
        ) from error
