"""Starts programs on the null device, and reads which null devices this process has."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from ..errors import BackendUnavailable
from ..profiles import DEFAULT_PROFILE, DeviceProfile, find_profile
from . import kept_build, torch_build

_PREFIX = "ATTNMEM_NULL_"
#: The end of a line of ``/proc/self/maps``.
_LOADED = re.compile(r"/lib(cuda|torch|c10)[^/]*$", re.MULTILINE)
_ASKED = re.compile(r"(?:([1-9]\d{0,3})x)?(.*)")


class Devices(NamedTuple):
    """Devices of one kind; the null runtime cannot mix kinds."""

    profile: DeviceProfile
    number: int = 1

    def __str__(self) -> str:
        many = f"{self.number}x" if self.number > 1 else ""
        return many + self.profile.name.replace(" ", "-")


def devices(text: str, more: Iterable[DeviceProfile] = ()) -> Devices:
    """Returns the devices for ``H100``, ``8xH100`` or an empty text; ``more`` adds profiles.

    Raises:
        BackendUnavailable: no profile has that name; the message lists the known profiles.
    """
    asked = _ASKED.fullmatch(text)
    count, name = asked.groups() if asked else (None, text)
    return Devices(find_profile(name or DEFAULT_PROFILE, more), int(count or 1))


def active() -> bool:
    """Returns True if this process runs under the null runtime."""
    return hasattr(ctypes.CDLL(None), "attnmem_null_unknown")


def present() -> Devices | None:
    """Returns the devices of the null runtime, or None if this process does not run under it."""
    if not active():
        return None
    return described(os.environ)


def described(variables: Mapping[str, str]) -> Devices:
    """Returns the devices that these :func:`variables` describe; plugins' profiles work too."""

    def number(name: str) -> int:
        return int(variables.get(_PREFIX + name) or 0)

    profile = DeviceProfile(
        name=variables[_PREFIX + "PROFILE"],
        memory_bytes=number("MEMORY"),
        compute_capability=divmod(number("CAPABILITY"), 10),
        multiprocessors=number("MULTIPROCESSORS"),
        l2_bytes=number("L2"),
        bus_bits=number("BUS_BITS"),
        clock_mhz=number("CLOCK_KHZ") // 1000,
        memory_clock_mhz=number("MEMORY_CLOCK_KHZ") // 1000,
        tensor_clock_mhz=number("TENSOR_CLOCK_KHZ") // 1000 or None,
        half_rate=frozenset(variables.get(_PREFIX + "HALF_RATE", "").split()),
        peer_access=bool(number("PEER_ACCESS")),
    )
    return Devices(profile, number("DEVICES"))


def may_load() -> bool:
    """Returns True until a library of CUDA or torch is here, which has found its functions."""
    return not _LOADED.search(Path("/proc/self/maps").read_text("utf-8", errors="replace"))


def load(wanted: Devices) -> None:
    """Puts this process on the null device, and the processes that it starts from now on.

    The loader looks for a name in libraries that were loaded for all before it looks in those that
    torch brings, so the runtime need not be preloaded where torch is not there yet.

    Raises:
        BackendUnavailable: the runtime cannot be built or used here.
    """
    from .build import LIBRARY, NAMES
    from .stubs import CALLS

    over = environment(*wanted)
    os.environ.update(over)  # the runtime reads them when it is loaded
    kept_build.put_in_front()
    folder = Path(over[_PREFIX + "PLANS"])
    try:
        for name in (LIBRARY, CALLS):
            ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)
        # The loader read LD_LIBRARY_PATH when the process started. A name that is loaded is found.
        for path in (*(folder / NAMES).iterdir(), *folder.glob("*.so*")):
            ctypes.CDLL(str(path))
    except OSError as error:
        raise BackendUnavailable(f"the null device was not loaded: {error}") from None


def reexec(command: Sequence[str], wanted: Devices) -> NoReturn:
    """Replaces this process by a program on the null device.

    Raises:
        BackendUnavailable: the runtime cannot be built or used here, or the program is missing.
    """
    if _PREFIX + "PROFILE" in os.environ and not active():
        raise BackendUnavailable(
            f"the null device was not loaded: {sys.executable} ignores LD_PRELOAD"
        )
    over = environment(*wanted)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], [*command], {**os.environ, **over})
    except OSError as error:
        raise BackendUnavailable(f"cannot run {command[0]!r}: {error.strerror}") from None


def environment(
    profile: DeviceProfile, count: int = 1, *, beside_gpu: bool = False
) -> dict[str, str]:
    """Returns the environment variables that give these devices to a new Python process.

    The process may run ``beside_gpu``, on a machine that has one; else that is an error.

    Raises:
        BackendUnavailable: the runtime cannot be built or used here.
    """
    from .build import build  # which writes libraries; a process on the device needs none of it

    if count < 1:
        raise BackendUnavailable(f"the number of null devices is {count}; use 1 or more")
    over = variables(build(beside_gpu), profile, count, os.environ)
    front = torch_build.find().front
    return {**over, **kept_build.variables(front, os.environ)} if front else over


def variables(
    folder: Path, profile: DeviceProfile, count: int, over: Mapping[str, str]
) -> dict[str, str]:
    """Returns the variables for the runtime in *folder*; other preloads *over* it are kept."""
    from .build import LIBRARY
    from .stubs import CALLS

    preloaded = _first(str(folder / CALLS), over.get("LD_PRELOAD", ""))
    return {
        "LD_PRELOAD": _first(str(folder / LIBRARY), preloaded),
        # Programs open the driver and NVML by name, so this folder must come first.
        "LD_LIBRARY_PATH": _first(str(folder), over.get("LD_LIBRARY_PATH", "")),
        "TRITON_LIBCUDA_PATH": str(folder),
        _PREFIX + "PLANS": str(folder),  # cuDNN's answers, which depend on the runtime's
        **{_PREFIX + name: str(value) for name, value in _described(profile, count).items()},
    }


def _first(entry: str, present: str) -> str:
    """Returns the list with *entry* moved to its start."""
    return ":".join([entry, *(old for old in present.split(":") if old and old != entry)])


def _described(profile: DeviceProfile, count: int) -> dict[str, str | int]:
    """Returns the variables that ``profile.c`` reads, without their prefix."""
    major, minor = profile.compute_capability
    architecture = profile.architecture
    return {
        "PROFILE": profile.name,
        "DEVICES": count,
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
        "PEER_ACCESS": int(profile.peer_access),
        # The runtime does not read these two; they make the profile that `described` returns whole.
        "TENSOR_CLOCK_KHZ": 1000 * (profile.tensor_clock_mhz or 0),
        "HALF_RATE": " ".join(sorted(profile.half_rate)),
    }
