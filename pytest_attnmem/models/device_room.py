"""The memory of the device that a backend stands for, and the device without a limit."""

from __future__ import annotations

from dataclasses import replace

from ..backends.primed_backend import PrimedBackend
from ..measurement.protocol import BackendProtocol
from ..nulldevice.launch import present
from ..profiles import DeviceProfile


def unlimited(backend: BackendProtocol) -> PrimedBackend | None:
    """Returns the device with unlimited memory, to list what a program needs; only a simulation."""
    profile = getattr(backend, "profile", None)
    if not isinstance(profile, DeviceProfile):
        return None
    from ..backends.simulated import Simulated

    device = Simulated(replace(profile, memory_bytes=1 << 60))
    return PrimedBackend(device, device.prime())


def capacity_of(backend: BackendProtocol) -> int:
    """Returns the memory of the device that a backend stands for, in bytes; 0: not known."""
    profile = getattr(backend, "profile", None)
    if isinstance(profile, DeviceProfile):
        return profile.memory_bytes
    running = present()
    return running.profile.memory_bytes if running is not None else 0
