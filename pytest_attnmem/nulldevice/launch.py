"""Starts programs under the null runtime, and tells what this process runs under."""

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
from .build import LIBRARY, build

_PREFIX = "ATTNMEM_NULL_"
_ASKED = re.compile(r"(?:([1-9]\d{0,3})x)?(.*)")


class Devices(NamedTuple):
    """Devices of one kind: the null runtime has no mixture."""

    profile: DeviceProfile
    number: int = 1

    def __str__(self) -> str:
        many = f"{self.number}x" if self.number > 1 else ""
        return many + self.profile.name.replace(" ", "-")


def devices(text: str, more: Iterable[DeviceProfile] = ()) -> Devices:
    """What ``H100``, ``8xH100`` or nothing asks for; the device may be one of ``more``.

    Raises:
        BackendUnavailable: there is no profile of that name; the text lists those that are.
    """
    asked = _ASKED.fullmatch(text)
    count, name = asked.groups() if asked else (None, text)
    return Devices(find_profile(name or DEFAULT_PROFILE, more), int(count or 1))


def active() -> bool:
    """Whether this process runs under the null runtime."""
    return hasattr(ctypes.CDLL(None), "attnmem_null_unknown")


def present() -> Devices | None:
    """What this process runs on, if that is the null runtime."""
    if not active():
        return None
    return described(os.environ)


def described(variables: Mapping[str, str]) -> Devices:
    """The devices that these :func:`variables` are of; those that a plugin offered are, too."""

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
    )
    return Devices(profile, number("DEVICES"))


def become(command: Sequence[str], wanted: Devices) -> NoReturn:
    """Run a program on the null device in place of this one, which ends here.

    Raises:
        BackendUnavailable: the runtime cannot be built or used here, or the program is not there.
    """
    if _PREFIX + "PROFILE" in os.environ and not active():
        raise BackendUnavailable(
            f"the null device did not come with {sys.executable}: it does not heed LD_PRELOAD"
        )
    over = environment(*wanted)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execvpe(command[0], [*command], {**os.environ, **over})
    except OSError as error:
        raise BackendUnavailable(f"cannot run {command[0]!r}: {error.strerror}") from None


def environment(profile: DeviceProfile, count: int = 1) -> dict[str, str]:
    """What to set, over the present environment, so that a fresh python sees these devices.

    Raises:
        BackendUnavailable: the runtime cannot be built or used here.
    """
    if count < 1:
        raise BackendUnavailable(f"the null device comes in one or more, not in {count}")
    return variables(build(), profile, count, os.environ)


def variables(
    folder: Path, profile: DeviceProfile, count: int, over: Mapping[str, str]
) -> dict[str, str]:
    """The variables for the runtime in *folder*, keeping what is preloaded *over* it."""
    library = str(folder / LIBRARY)
    return {
        "LD_PRELOAD": _first(library, over.get("LD_PRELOAD", "")),
        # The driver and NVML are opened by name, so their folder must come first.
        "LD_LIBRARY_PATH": _first(str(folder), over.get("LD_LIBRARY_PATH", "")),
        "TRITON_LIBCUDA_PATH": str(folder),
        **{_PREFIX + name: str(value) for name, value in _described(profile, count).items()},
    }


def _first(entry: str, present: str) -> str:
    """A list that begins with *entry*, once, and goes on as before."""
    return ":".join([entry, *(old for old in present.split(":") if old and old != entry)])


def _described(profile: DeviceProfile, count: int) -> dict[str, str | int]:
    """As ``device.c`` reads it."""
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
        # The runtime does not read these two; they make the profile that `described` returns whole.
        "TENSOR_CLOCK_KHZ": 1000 * (profile.tensor_clock_mhz or 0),
        "HALF_RATE": " ".join(sorted(profile.half_rate)),
    }
