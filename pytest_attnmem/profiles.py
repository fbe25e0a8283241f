"""The devices that the null runtime and the simulation can stand for: one row for each device.

A row has the facts that CUDA, the caching allocator and the roofline need. ``memory_bytes`` is the
memory that CUDA reports, which is less than the memory on the data sheet: error correction and the
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


class Rates(NamedTuple):
    """FLOPs per clock of one multiprocessor, two for a multiply-add; 0 for an unsupported dtype.

    ``fp32`` is computed outside the tensor cores, every other dtype inside. Sums are in float32.
    """

    fp32: int
    tf32: int = 0
    fp16: int = 0
    bf16: int = 0
    fp8: int = 0
    int8: int = 0
    fp4: int = 0
    int4: int = 0


class Architecture(NamedTuple):
    """The facts that all devices of a compute capability share.

    Limits are those of the CUDA C++ Programming Guide, rates those of NVIDIA's white paper of the
    architecture.
    """

    shared_bytes_per_block: int  # at most, when a kernel opts in
    shared_bytes_per_multiprocessor: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    rates: Rates


def _row(
    block_kib: int, multiprocessor_kib: int, threads: int, blocks: int, rates: Rates
) -> Architecture:
    return Architecture(block_kib * _KIB, multiprocessor_kib * _KIB, threads, blocks, rates)


ARCHITECTURES: Final[Mapping[tuple[int, int], Architecture]] = MappingProxyType(
    {
        # Pascal GP104 computes half precision at a 64th of the single rate: left out.
        (6, 1): _row(48, 96, 2048, 32, Rates(256)),
        # Volta GV100
        (7, 0): _row(96, 96, 2048, 32, Rates(128, fp16=1024)),
        # Turing TU104
        (7, 5): _row(64, 64, 1024, 16, Rates(128, fp16=1024, int8=2048, int4=4096)),
        # Ampere GA100 and GA102
        (8, 0): _row(163, 164, 2048, 32, Rates(128, 1024, 2048, 2048, int8=4096, int4=8192)),
        (8, 6): _row(99, 100, 1536, 16, Rates(256, 512, 1024, 1024, int8=2048, int4=4096)),
        # Ada AD102 and AD104
        (8, 9): _row(99, 100, 1536, 24, Rates(256, 512, 1024, 1024, 2048, 2048, int4=4096)),
        # Hopper GH100
        (9, 0): _row(227, 228, 2048, 32, Rates(256, 2048, 4096, 4096, 8192, 8192)),
        # Blackwell GB100 and GB202
        (10, 0): _row(227, 228, 2048, 32, Rates(256, 4096, 8192, 8192, 16384, 16384, fp4=32768)),
        (12, 0): _row(99, 100, 1536, 24, Rates(256, 512, 1024, 1024, 2048, 2048, fp4=4096)),
    }
)


@dataclass(frozen=True, slots=True)
class DeviceProfile:
    """The facts of one kind of device. ``compute_capability`` must be in ``ARCHITECTURES``."""

    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    multiprocessors: int
    l2_bytes: int
    bus_bits: int
    """Width of the memory bus."""
    clock_mhz: int
    """The highest clock of the multiprocessors."""
    memory_clock_mhz: int
    """The memory clock that CUDA reports; memory sends twice per cycle of it."""
    tensor_clock_mhz: int | None = None
    """The clock behind the vendor's tensor core figures; None if it is ``clock_mhz``."""
    half_rate: frozenset[str] = frozenset()
    """Dtypes that this device computes at half the rate of its architecture."""

    @property
    def architecture(self) -> Architecture:
        """Returns the facts of its compute capability."""
        return ARCHITECTURES[self.compute_capability]


# GeForce boards sum in float32 at half the rate (white papers of GA102 and Ada); sums of integers
# keep the full rate.
_GEFORCE_30: Final = frozenset({"tf32", "fp16", "bf16"})
_GEFORCE_40: Final = frozenset({"tf32", "fp16", "bf16", "fp8"})
# The data sheet of the A10G halves every rate; no second source confirms those of integers.
_A10G: Final = frozenset({"tf32", "fp16", "bf16", "int8", "int4"})

# H100 and H200: 989.4 TFLOPS in fp16 are those of 1830 MHz. B200: 2250 TFLOPS follow from 1856 MHz,
# a clock that no white paper states.
_ALL: Final = (
    DeviceProfile("GTX 1080", 8_513_978_368, (6, 1), 20, 2 * _MIB, 256, 1733, 5005),
    DeviceProfile("V100", 16_945_512_448, (7, 0), 80, 6 * _MIB, 4096, 1530, 877),
    DeviceProfile("T4", 15_843_721_216, (7, 5), 40, 4 * _MIB, 256, 1590, 5001),
    DeviceProfile("A100-40GB", 42_298_834_944, (8, 0), 108, 40 * _MIB, 5120, 1410, 1215),
    DeviceProfile("A100-80GB", 85_031_714_816, (8, 0), 108, 40 * _MIB, 5120, 1410, 1593),
    DeviceProfile("A10G", 23_836_098_560, (8, 6), 80, 6 * _MIB, 384, 1710, 6251, half_rate=_A10G),
    DeviceProfile(
        "RTX 3090", 25_447_170_048, (8, 6), 82, 6 * _MIB, 384, 1695, 9751, half_rate=_GEFORCE_30
    ),
    DeviceProfile("L4", 23_688_380_416, (8, 9), 58, 48 * _MIB, 192, 2040, 6251),
    DeviceProfile("L40S", 47_697_362_944, (8, 9), 142, 96 * _MIB, 384, 2520, 9001),
    DeviceProfile(
        "RTX 4090", 25_393_692_672, (8, 9), 128, 72 * _MIB, 384, 2520, 10501, half_rate=_GEFORCE_40
    ),
    DeviceProfile("H100", 84_942_979_072, (9, 0), 132, 50 * _MIB, 5120, 1980, 2619, 1830),
    DeviceProfile("H200", 150_119_382_016, (9, 0), 132, 50 * _MIB, 6144, 1980, 3201, 1830),
    DeviceProfile("B200", 191_503_007_744, (10, 0), 148, 253 * _MIB // 2, 7680, 1965, 3996, 1856),
)
PROFILES: Final[Mapping[str, DeviceProfile]] = MappingProxyType({p.name: p for p in _ALL})

#: The device that the null runtime and the simulation stand for by default.
DEFAULT_PROFILE: Final = "A100-80GB"


def find_profile(name: str, more: Iterable[DeviceProfile] = ()) -> DeviceProfile:
    """Returns the profile with this name; case, spaces, dashes and underscores do not matter.

    Raises:
        BackendUnavailable: neither the built-in profiles nor ``more`` have the name.
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
    """Returns the profiles in the results of ``pytest_attnmem_device_profiles``.

    A profile cannot replace another one: a name that is already taken is an error.

    Raises:
        BackendUnavailable: a result is not a list of profiles, or a profile is not valid.
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
    """Returns the reason why a profile is not valid, or an empty text."""
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
            return f"needs {field} to be a whole number >= 1, got {shown(value)}"
    clock = profile.tensor_clock_mhz
    if clock is not None and (type(clock) is not int or clock < 1):
        return f"needs tensor_clock_mhz to be a whole number >= 1 or None, got {shown(clock)}"
    rates = profile.half_rate
    if not isinstance(rates, frozenset) or not rates <= set(Rates._fields):
        known = ", ".join(Rates._fields)
        return f"needs half_rate to be a frozenset of {known}, got {shown(rates)}"
    if profile.compute_capability not in tuple(ARCHITECTURES):  # it may be unhashable
        known = ", ".join(str(capability) for capability in ARCHITECTURES)
        capability = shown(profile.compute_capability)
        return f"needs a compute_capability that is one of {known}, got {capability}"
    return ""


def _plain(name: str) -> str:
    return name.casefold().replace("-", "").replace(" ", "").replace("_", "")
