"""The profiles that plugins add with ``pytest_attnmem_device_profiles``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..errors import BackendUnavailable
from ..units import shown
from .architectures import ARCHITECTURES, Rates
from .device_profile import DeviceProfile
from .names import plain
from .rows import PROFILES

_HOOK: Final = "pytest_attnmem_device_profiles"
_COUNTS: Final = (
    *("memory_bytes", "multiprocessors", "l2_bytes", "bus_bits", "clock_mhz"),
    "memory_clock_mhz",
)


def offered_profiles(found: Iterable[object]) -> tuple[DeviceProfile, ...]:
    """Returns the profiles in the results of ``pytest_attnmem_device_profiles``.

    A profile cannot replace another one: a name that is already taken is an error.

    Raises:
        BackendUnavailable: a result is not a list of profiles, or a profile is not valid.
    """
    offered: dict[str, DeviceProfile] = {}
    taken = {plain(name) for name in PROFILES}
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
            taken.add(plain(profile.name))
            offered[profile.name] = profile
    return tuple(offered.values())


def _problem(profile: DeviceProfile, taken: Iterable[str]) -> str:
    """Returns the reason why a profile is not valid, or an empty text."""
    name = profile.name
    if not (
        isinstance(name, str) and name[:1].isalpha() and name.isprintable() and ":" not in name
    ):
        return "needs a name that begins with a letter and has no colon"
    if plain(name) in taken:
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
    if type(profile.peer_access) is not bool:
        return f"needs peer_access to be True or False, got {shown(profile.peer_access)}"
    if profile.compute_capability not in tuple(ARCHITECTURES):  # it may be unhashable
        known = ", ".join(str(capability) for capability in ARCHITECTURES)
        capability = shown(profile.compute_capability)
        return f"needs a compute_capability that is one of {known}, got {capability}"
    return ""
