"""Starts programs under the null runtime, and tells whether this process is one."""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..errors import BackendUnavailable
from ..profiles import DeviceProfile
from .build import LIBRARY, build

_PREFIX = "ATTNMEM_NULL_"


def active() -> bool:
    """Whether this process runs under the null runtime."""
    return hasattr(ctypes.CDLL(None), "attnmem_null_unknown")


def environment(profile: DeviceProfile, devices: int = 1) -> dict[str, str]:
    """What to set, over the present environment, so that a fresh python sees these devices.

    Raises:
        BackendUnavailable: the runtime cannot be built or used here.
    """
    if devices < 1:
        raise BackendUnavailable(f"the null device comes in one or more, not in {devices}")
    return variables(build(), profile, devices, os.environ)


def variables(
    folder: Path, profile: DeviceProfile, devices: int, present: Mapping[str, str]
) -> dict[str, str]:
    """The variables for the runtime in *folder*, keeping what *present* ones already preload."""
    library = str(folder / LIBRARY)
    return {
        "LD_PRELOAD": _first(library, present.get("LD_PRELOAD", "")),
        # The driver and NVML are opened by name, so their folder must come first.
        "LD_LIBRARY_PATH": _first(str(folder), present.get("LD_LIBRARY_PATH", "")),
        "TRITON_LIBCUDA_PATH": str(folder),
        **{_PREFIX + name: str(value) for name, value in _described(profile, devices).items()},
    }


def _first(entry: str, present: str) -> str:
    """A list that begins with *entry*, once, and goes on as before."""
    return ":".join([entry, *(old for old in present.split(":") if old and old != entry)])


def _described(profile: DeviceProfile, devices: int) -> dict[str, str | int]:
    """As ``device.c`` reads it."""
    major, minor = profile.compute_capability
    architecture = profile.architecture
    return {
        "DEVICES": devices,
        "NAME": f"NVIDIA {profile.name} (attnmem null device)",
        "CAPABILITY": 10 * major + minor,
        "MULTIPROCESSORS": profile.multiprocessors,
        "MEMORY": profile.memory_bytes,
        "SHARED_PER_BLOCK": architecture.shared_bytes_per_block,
        "SHARED_PER_MULTIPROCESSOR": architecture.shared_bytes_per_multiprocessor,
        "THREADS_PER_MULTIPROCESSOR": architecture.threads_per_multiprocessor,
        "BLOCKS_PER_MULTIPROCESSOR": architecture.blocks_per_multiprocessor,
        "L2": profile.l2_bytes,
        "BUS_BITS": profile.bus_bits,
        "CLOCK_KHZ": 1000 * profile.clock_mhz,
        "MEMORY_CLOCK_KHZ": 1000 * profile.memory_clock_mhz,
    }


def run(command: Sequence[str], profile: DeviceProfile, devices: int = 1) -> int:
    """Run a program on the null device; its exit code, 128 and the signal if one ended it.

    Raises:
        BackendUnavailable: the runtime cannot be built or used here, or the program is not there.
    """
    over = environment(profile, devices)
    try:
        code = subprocess.call(list(command), env={**os.environ, **over})
    except OSError as error:
        raise BackendUnavailable(f"cannot run {command[0]!r}: {error.strerror}") from None
    return code if code >= 0 else 128 - code
