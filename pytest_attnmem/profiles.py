"""The devices that a run can stand for, on the null runtime or simulated. Data alone.

Memory is what CUDA reports of such a device, not what it is sold with: error correction and the
driver keep a share, which differs a little between boards and drivers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NamedTuple

from .errors import BackendUnavailable
from .suggestion import closest
from .units import shown

_KIB: Final = 1 << 10
_MIB: Final = 1 << 20


class Architecture(NamedTuple):
    """What every device of a compute capability has in common (CUDA C++ Programming Guide)."""

    shared_bytes_per_block: int  # at most, when a kernel opts in
    shared_bytes_per_multiprocessor: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int


ARCHITECTURES: Final[Mapping[tuple[int, int], Architecture]] = MappingProxyType(
    {
        (6, 1): Architecture(48 * _KIB, 96 * _KIB, 2048, 32),
        (7, 0): Architecture(96 * _KIB, 96 * _KIB, 2048, 32),
        (7, 5): Architecture(64 * _KIB, 64 * _KIB, 1024, 16),
        (8, 0): Architecture(163 * _KIB, 164 * _KIB, 2048, 32),
        (8, 6): Architecture(99 * _KIB, 100 * _KIB, 1536, 16),
        (8, 9): Architecture(99 * _KIB, 100 * _KIB, 1536, 24),
        (9, 0): Architecture(227 * _KIB, 228 * _KIB, 2048, 32),
        (10, 0): Architecture(227 * _KIB, 228 * _KIB, 2048, 32),
        (12, 0): Architecture(99 * _KIB, 100 * _KIB, 1536, 24),
    }
)


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """One kind of device. A capability that ``ARCHITECTURES`` has not is a ``KeyError`` there."""

    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    multiprocessors: int
    l2_bytes: int
    bus_bits: int  # of its memory
    clock_mhz: int
    memory_clock_mhz: int

    @property
    def architecture(self) -> Architecture:
        """What its compute capability says."""
        return ARCHITECTURES[self.compute_capability]


_ALL: Final = (
    DeviceProfile("GTX 1080", 8_513_978_368, (6, 1), 20, 2 * _MIB, 256, 1733, 5005),
    DeviceProfile("V100", 16_945_512_448, (7, 0), 80, 6 * _MIB, 4096, 1530, 877),
    DeviceProfile("T4", 15_843_721_216, (7, 5), 40, 4 * _MIB, 256, 1590, 5001),
    DeviceProfile("A100-40GB", 42_298_834_944, (8, 0), 108, 40 * _MIB, 5120, 1410, 1215),
    DeviceProfile("A100-80GB", 85_031_714_816, (8, 0), 108, 40 * _MIB, 5120, 1410, 1593),
    DeviceProfile("A10G", 23_836_098_560, (8, 6), 80, 6 * _MIB, 384, 1710, 6251),
    DeviceProfile("RTX 3090", 25_447_170_048, (8, 6), 82, 6 * _MIB, 384, 1695, 9751),
    DeviceProfile("L4", 23_688_380_416, (8, 9), 58, 48 * _MIB, 192, 2040, 6251),
    DeviceProfile("L40S", 47_697_362_944, (8, 9), 142, 96 * _MIB, 384, 2520, 9001),
    DeviceProfile("RTX 4090", 25_393_692_672, (8, 9), 128, 72 * _MIB, 384, 2520, 10501),
    DeviceProfile("H100", 84_942_979_072, (9, 0), 132, 50 * _MIB, 5120, 1980, 2619),
    DeviceProfile("H200", 150_119_382_016, (9, 0), 132, 50 * _MIB, 6144, 1980, 3201),
    DeviceProfile("B200", 191_503_007_744, (10, 0), 148, 253 * _MIB // 2, 7680, 1965, 3996),
)
PROFILES: Final[Mapping[str, DeviceProfile]] = MappingProxyType({p.name: p for p in _ALL})

#: What a backend that stands for a device stands for unless told otherwise.
DEFAULT_PROFILE: Final = "A100-80GB"


def find_profile(name: str, more: Iterable[DeviceProfile] = ()) -> DeviceProfile:
    """The profile of that name, in any case, with spaces and dashes alike; of ``more`` too.

    Raises:
        BackendUnavailable: there is none; the text lists those that are.
    """
    profiles = {profile.name: profile for profile in (*_ALL, *more)}
    for profile in profiles.values():
        if _plain(profile.name) == _plain(name):
            return profile
    known = ", ".join(profiles)
    raise BackendUnavailable(
        f"unknown device {shown(name)}; expected one of {known}{_meant(name, profiles)}"
    )


def _meant(name: str, profiles: Iterable[str]) -> str:
    """Return the end of a message, ``; did you mean A100-40GB or A100-80GB?``, or nothing."""
    asked, plain = _plain(name), {_plain(profile): profile for profile in profiles}
    found = [profile for known, profile in plain.items() if len(asked) > 1 and asked in known]
    found = found or [profile for known, profile in plain.items() if known in asked]
    if not found and (close := closest(asked, plain, 0.75)):
        found = [plain[close]]
    return f"; did you mean {' or '.join(found)}?" if found else ""


def offered_profiles(found: Iterable[object]) -> tuple[DeviceProfile, ...]:
    """What plugins returned for ``pytest_attnmem_device_profiles``, once seen to be profiles.

    A name stands for one device: one that is taken is refused, and nothing is overridden.

    Raises:
        BackendUnavailable: they are none, or one cannot stand for a device.
    """
    offered: dict[str, DeviceProfile] = {}
    taken = {_plain(name) for name in PROFILES}
    for returned in found:
        profiles = tuple(returned) if isinstance(returned, Iterable) else (returned,)
        if not isinstance(returned, Iterable) or not all(
            isinstance(profile, DeviceProfile) for profile in profiles
        ):
            raise BackendUnavailable(
                f"{_HOOK} returned {shown(returned)}; expected a list of"
                " pytest_attnmem.profiles.DeviceProfile"
            )
        for profile in profiles:
            if problem := _problem(profile, taken):
                raise BackendUnavailable(f"{_HOOK}: device {shown(profile.name)} {problem}")
            taken.add(_plain(profile.name))
            offered[profile.name] = profile
    return tuple(offered.values())


_HOOK: Final = "pytest_attnmem_device_profiles"
_COUNTS: Final = (
    *("memory_bytes", "multiprocessors", "l2_bytes", "bus_bits", "clock_mhz"),
    "memory_clock_mhz",
)


def _problem(profile: DeviceProfile, taken: Iterable[str]) -> str:
    """Why it cannot be one of the devices, or nothing."""
    name = profile.name
    if not (
        isinstance(name, str) and name[:1].isalpha() and name.isprintable() and ":" not in name
    ):
        return "needs a name that begins with a letter and has no colon"
    if _plain(name) in taken:
        return "exists already; give it a name of its own"
    for field in _COUNTS:
        value = getattr(profile, field)
        if type(value) is not int or value < 1:
            return f"needs {field} to be a whole number of at least 1, got {shown(value)}"
    if profile.compute_capability not in tuple(ARCHITECTURES):  # it may be unhashable
        known = ", ".join(str(capability) for capability in ARCHITECTURES)
        capability = shown(profile.compute_capability)
        return f"needs a compute_capability that is one of {known}, got {capability}"
    return ""


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace(" ", "").replace("_", "")
