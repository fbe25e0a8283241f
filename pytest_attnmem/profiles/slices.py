"""The profiles of GPU instances (MIG): slices of an A100, H100 or H200 that CUDA shows as devices.

A slice has eighths of the memory, L2 cache and bus of the whole device, and its own number of
multiprocessors (NVIDIA's MIG User Guide, "Supported MIG Profiles"). CUDA reports the memory that
``nvidia-smi mig -lgip`` lists, in eighths of a GiB.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from .device_profile import DeviceProfile

_EIGHTH_OF_A_GIB: Final = 1 << 27


class _Whole(NamedTuple):
    """The device that is cut; the facts are those of its row in ``rows.py``."""

    name: str
    capability: tuple[int, int]
    l2_bytes: int
    bus_bits: int
    clock_mhz: int
    memory_clock_mhz: int
    tensor_clock_mhz: int | None
    source: str


def _slice(
    whole: _Whole, name: str, eighths_of_gib: int, multiprocessors: int, eighths: int
) -> DeviceProfile:
    """Returns a slice with so many eighths of the L2 cache and the bus of the whole device."""
    return DeviceProfile(
        *(f"{whole.name} MIG {name}", eighths_of_gib * _EIGHTH_OF_A_GIB, whole.capability),
        *(multiprocessors, whole.l2_bytes * eighths // 8, whole.bus_bits * eighths // 8),
        *(whole.clock_mhz, whole.memory_clock_mhz, whole.tensor_clock_mhz),
        source=whole.source,
    )


_LISTED: Final = "; L2 cache and bus by the eighths of NVIDIA's MIG User Guide"
_SMALL_A100: Final = _Whole(
    *("A100-40GB", (8, 0), 40 << 20, 5120, 1410, 1215, None),
    "nvidia-smi mig -lgip in public guides to MIG" + _LISTED,
)
_A100: Final = _Whole(
    *("A100-80GB", (8, 0), 40 << 20, 5120, 1410, 1593, None),
    "arcs-njit-edu.github.io/Docs/MIG/profile-comparison" + _LISTED,
)
_H100: Final = _Whole(
    *("H100", (9, 0), 50 << 20, 5120, 1980, 2619, 1830),
    "nvidia-smi in jbarrow.ai/field_notes/nvidia-mig; 1g.10gb is that of github.com/openxla/xla"
    " xla/backends/gpu/target_config/specs/h100_sxm_mig.txtpb" + _LISTED,
)
_H200: Final = _Whole(
    *("H200", (9, 0), 60 << 20, 6144, 1980, 3201, 1830),
    "nvidia-smi mig -lgip in the tests of public schedulers" + _LISTED,
)

SLICES: Final = (
    _slice(_SMALL_A100, "1g.5gb", 38, 14, 1),
    _slice(_SMALL_A100, "2g.10gb", 78, 28, 2),
    _slice(_SMALL_A100, "3g.20gb", 157, 42, 4),
    _slice(_A100, "1g.10gb", 76, 14, 1),
    _slice(_A100, "2g.20gb", 156, 28, 2),
    _slice(_A100, "3g.40gb", 316, 42, 4),
    _slice(_H100, "1g.10gb", 78, 16, 1),
    _slice(_H100, "2g.20gb", 157, 32, 2),
    _slice(_H100, "3g.40gb", 316, 60, 4),
    _slice(_H100, "4g.40gb", 316, 64, 4),
    _slice(_H200, "1g.18gb", 128, 16, 1),
    _slice(_H200, "2g.35gb", 260, 32, 2),
)
