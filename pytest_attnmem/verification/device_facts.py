"""The facts of the device that is measured, and of the profile that stands for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..errors import BackendUnavailable
from ..profiles import ARCHITECTURES, PROFILES, DeviceProfile

Facts = Mapping[str, int | str | None]

#: Fact → the attribute of ``torch.cuda.get_device_properties`` (torch/csrc/cuda/Module.cpp), and
#: the number of its units in one of ours.
_PROPERTIES: Final = (
    ("memory_bytes", "total_memory", 1),
    ("multiprocessors", "multi_processor_count", 1),
    ("l2_bytes", "L2_cache_size", 1),
    ("bus_bits", "memory_bus_width", 1),
    ("clock_mhz", "clock_rate", 1000),
    ("memory_clock_mhz", "memory_clock_rate", 1000),
    ("shared_bytes_per_block", "shared_memory_per_block_optin", 1),
    ("shared_bytes_per_multiprocessor", "shared_memory_per_multiprocessor", 1),
    ("threads_per_multiprocessor", "max_threads_per_multi_processor", 1),
)


def device_facts(properties: Any) -> dict[str, int | str | None]:
    """Returns the facts that CUDA reports; None for one that this torch does not tell."""
    facts: dict[str, int | str | None] = {
        "name": str(properties.name),
        "compute_capability": f"{properties.major}.{properties.minor}",
    }
    for name, attribute, units in _PROPERTIES:
        value = getattr(properties, attribute, None)
        facts[name] = None if value is None else int(value) // units
    return facts


def profile_facts(profile: DeviceProfile) -> dict[str, int | str | None]:
    """Returns the same facts of a profile."""
    major, minor = profile.compute_capability
    architecture = profile.architecture
    return {
        "name": profile.name,
        "compute_capability": f"{major}.{minor}",
        **{name: getattr(profile, name) for name, *_ in _PROPERTIES[:6]},
        "shared_bytes_per_block": architecture.shared_bytes_per_block,
        "shared_bytes_per_multiprocessor": architecture.shared_bytes_per_multiprocessor,
        "threads_per_multiprocessor": architecture.threads_per_multiprocessor,
    }


def differing(device: Facts, profile: Facts) -> dict[str, tuple[object, object]]:
    """Returns fact → device's and profile's value, where both are known and not the same."""
    names = [name for name in profile if name != "name" and device.get(name) is not None]
    return {name: (device[name], profile[name]) for name in names if device[name] != profile[name]}


def profile_for(facts: Facts) -> DeviceProfile:
    """Returns the built-in profile that is closest in memory; one of these facts if none fits.

    A profile fits if it has the device's compute capability and number of multiprocessors.

    Raises:
        BackendUnavailable: nothing is known about that compute capability.
    """
    major, _, minor = str(facts["compute_capability"]).partition(".")
    capability = (int(major), int(minor))
    number, memory = _number(facts, "multiprocessors"), _number(facts, "memory_bytes")
    fitting = [
        profile
        for profile in PROFILES.values()
        if (profile.compute_capability, profile.multiprocessors) == (capability, number)
    ]
    if fitting:
        return min(fitting, key=lambda profile: abs(profile.memory_bytes - memory))
    if capability not in ARCHITECTURES:
        raise BackendUnavailable(
            f"the device has compute capability {major}.{minor}, of which nothing is known here;"
            f" expected one of {', '.join(f'{one}.{two}' for one, two in ARCHITECTURES)}"
        )
    return DeviceProfile(
        name=str(facts["name"]).removeprefix("NVIDIA "),
        memory_bytes=memory,
        compute_capability=capability,
        multiprocessors=number,
        l2_bytes=max(1, _number(facts, "l2_bytes")),
        bus_bits=max(1, _number(facts, "bus_bits")),
        clock_mhz=max(1, _number(facts, "clock_mhz")),
        memory_clock_mhz=max(1, _number(facts, "memory_clock_mhz")),
    )


def _number(facts: Facts, name: str) -> int:
    return int(facts.get(name) or 0)
