"""The roof of a device: bytes per second of its memory, and FLOPs per second in each dtype.

Compute is that of dense matrices with sums in float32, as NVIDIA publishes it: FLOPs per clock of a
multiprocessor, times multiprocessors, times clock. The numbers are in the device's profile.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from ..errors import BudgetError
from ..profiles import DeviceProfile
from ..units import shown

#: Bytes of an element of each dtype. TF32 is float32 in memory.
DTYPES: Final[Mapping[str, float]] = MappingProxyType(
    {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1, "fp4": 0.5, "int4": 0.5}
)
_LONG: Final = MappingProxyType(
    {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8": "fp8", "float4": "fp4"}
)

#: The next dtype to compute in, on a device that does not support a dtype.
_INSTEAD: Final = MappingProxyType(
    {
        **{"fp4": "fp8", "int4": "int8", "fp8": "fp16", "int8": "fp16"},
        **{"bf16": "fp32", "fp16": "fp32", "tf32": "fp32"},
    }
)


@dataclass(frozen=True, slots=True)
class Roofline:
    """The limits of a device: it is as fast as its memory or as its arithmetic allows."""

    name: str
    memory_bytes: int | None
    """None if it is not known."""
    bandwidth_bytes_per_sec: float
    compute_flops: float
    dtype: str = ""
    """The dtype of the arithmetic; empty if it is not known."""

    @property
    def ridge(self) -> float:
        """Returns the FLOPs per byte from which on arithmetic is the limit."""
        return self.compute_flops / self.bandwidth_bytes_per_sec

    def is_memory_bound(self, intensity: float) -> bool:
        """Returns True if memory is the limit at this intensity; at the ridge point it is not."""
        return intensity < self.ridge

    def attainable(self, intensity: float) -> float:
        """Returns the FLOPs per second of an operation with that many FLOPs per byte."""
        return min(self.compute_flops, intensity * self.bandwidth_bytes_per_sec)

    def seconds(self, flops: int, nbytes: int) -> float:
        """Returns the least time of an operation."""
        return max(flops / self.compute_flops, nbytes / self.bandwidth_bytes_per_sec)


def roof(profile: DeviceProfile, dtype: str) -> Roofline:
    """Returns the roof of a device in a dtype, or in the dtype that it computes instead."""
    computed = computed_in(profile, dtype)
    rates = float(bandwidth(profile)), float(flops_per_second(profile, computed))
    return Roofline(profile.name, profile.memory_bytes, *rates, computed)


def bandwidth(profile: DeviceProfile) -> int:
    """Returns the bytes per second of the device's memory: two bits per clock on every bus line.

    CUDA reports a clock for which this holds for every kind of memory: the clocks of GDDR5X, GDDR6
    and GDDR6X, which send more often, are reported as that many times higher.
    """
    return 2 * profile.memory_clock_mhz * 10**6 * profile.bus_bits // 8


def computed_in(profile: DeviceProfile, dtype: str) -> str:
    """Returns the dtype that the device computes in for *dtype*: the same, if supported."""
    while not getattr(profile.architecture.rates, dtype):
        dtype = _INSTEAD[dtype]
    return dtype


def flops_per_second(profile: DeviceProfile, dtype: str) -> int:
    """Returns the FLOPs per second of dense matrix products in a supported dtype."""
    rate: int = getattr(profile.architecture.rates, dtype)
    if dtype in profile.half_rate:
        rate //= 2
    clock = profile.clock_mhz
    if dtype != "fp32" and profile.tensor_clock_mhz is not None:
        clock = profile.tensor_clock_mhz
    return profile.multiprocessors * clock * 10**6 * rate


def dtype_named(name: str, label: str) -> str:
    """Returns the short name of a dtype; torch's names are accepted too.

    Raises:
        BudgetError: no dtype has the name; ``label`` is the option that has it as value.
    """
    found = _LONG.get(name, name)
    if found not in DTYPES:
        raise BudgetError(f"{label}: expected one of {', '.join(DTYPES)}, got {shown(name)}")
    return found
