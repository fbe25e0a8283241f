"""The backend of simulated devices that are devices of PyTorch, not yet shown by name.

It is built beside ``simulated``, whose rules of memory it reads, and takes its place once the
comparison of ``tests/device_gate`` holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager

import torch

from ...errors import BackendUnavailable
from ...measurement.installed_torch import missing_rules
from ...measurement.protocol import Recorder
from ...profiles import DEFAULT_PROFILE, DeviceProfile, find_profile
from ..base import Backend
from ..tracing.dispatch_tracker import raised_at
from .process import process_device
from .simulation import DeviceSimulation


class SimulatedDevice(Backend):
    """A simulated CUDA device, whose tensors are PyTorch's own."""

    device = "cuda:0"
    computes = True
    larger_is_free = True

    def __init__(self, profile: DeviceProfile) -> None:
        self.profile = profile
        self.name = f"device:{profile.name}"
        self.simulation = DeviceSimulation(profile, process_device())

    @property
    def kinds(self) -> tuple[str, ...]:
        """Returns ``simulated``, ``sm80`` and ``cuda``."""
        major, minor = self.profile.compute_capability
        return ("simulated", f"sm{major}{minor}", "cuda")

    @property
    def symbols(self) -> Mapping[str, int]:
        """Returns an empty mapping: formulas read no facts of the device."""
        return {}

    def world(self) -> AbstractContextManager[None]:
        """Returns the context in which measured programs run."""
        return self.simulation.active()

    def name_device(self) -> None:
        """Takes this test for one that names the device: what it makes elsewhere is on the host."""
        self.simulation.device_named = True

    def forget(self) -> None:
        """Begins another test, which names no device unless somebody says so; the heap stays."""
        self.simulation.device_named = False

    def gauge(self) -> Recorder:
        """Returns the simulation, which records its own device."""
        return self.simulation

    def tracer(self) -> Recorder:
        """Returns the same recorder: each of its windows lists the tensors."""
        return self.simulation

    def prime(self) -> int:
        """Allocates the workspaces of libraries, once; returns their bytes."""
        return self.simulation.prime()

    def empty_cache(self) -> None:
        """Releases unused segments."""
        self.simulation.device.empty_cache()

    def out_of_memory(self, error: BaseException) -> str | None:
        """Returns ``needs 20.0 GiB more at attn.py:5`` for an out-of-memory error, else None."""
        if not isinstance(error, torch.OutOfMemoryError):
            return None
        return self.simulation.device.out_of_memory or f"it does not fit{raised_at(error)}"


def open_backend(argument: str, profiles: Iterable[DeviceProfile] = ()) -> SimulatedDevice:
    """Returns the device with that profile, which may be one of ``profiles``; else an A100-80GB.

    Raises:
        BackendUnavailable: there is no such profile, or no rules for this torch, or a real device.
    """
    profile, missing = find_profile(argument or DEFAULT_PROFILE, profiles), missing_rules()
    if missing:
        raise BackendUnavailable(f"backend 'device' cannot measure: {missing}")
    return SimulatedDevice(profile)
