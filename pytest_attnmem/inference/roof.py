"""How fast devices are at most: bytes from memory and FLOPs a second, by dtype.

NVIDIA's published figures for dense matrices, accumulated in float32, as the products of a
multiprocessor's FLOPs a clock (the white papers of the architectures), multiprocessors and clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final, NamedTuple

from ..errors import BudgetError
from ..profiles import DeviceProfile
from ..units import shown

#: Bytes of an element. TF32 is float32 in memory.
DTYPES: Final[Mapping[str, Fraction]] = MappingProxyType(
    {
        "fp32": Fraction(4),
        "tf32": Fraction(4),
        "fp16": Fraction(2),
        "bf16": Fraction(2),
        "fp8": Fraction(1),
        "int8": Fraction(1),
        "fp4": Fraction(1, 2),
        "int4": Fraction(1, 2),
    }
)
_LONG: Final = MappingProxyType(
    {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "float8": "fp8", "float4": "fp4"}
)

#: What is computed instead on a device that has nothing for a dtype.
_INSTEAD: Final = MappingProxyType(
    {
        **{"fp4": "fp8", "int4": "int8", "fp8": "fp16", "int8": "fp16"},
        **{"bf16": "fp32", "fp16": "fp32", "tf32": "fp32"},
    }
)


class Rates(NamedTuple):
    """FLOPs a clock of one multiprocessor, a multiply-add being two; 0 where there is nothing.

    Of ``fp32`` outside the tensor cores, of all else inside.
    """

    fp32: int
    tf32: int = 0
    fp16: int = 0
    bf16: int = 0
    fp8: int = 0
    int8: int = 0
    fp4: int = 0
    int4: int = 0


RATES: Final[Mapping[tuple[int, int], Rates]] = MappingProxyType(
    {
        # Pascal GP104: half precision at a 64th of single, so nobody computes in it.
        (6, 1): Rates(256),
        (7, 0): Rates(128, fp16=1024),  # Volta GV100
        (7, 5): Rates(128, fp16=1024, int8=2048, int4=4096),  # Turing TU104
        (8, 0): Rates(128, 1024, 2048, 2048, int8=4096, int4=8192),  # Ampere GA100
        (8, 6): Rates(256, 512, 1024, 1024, int8=2048, int4=4096),  # Ampere GA102
        (8, 9): Rates(256, 512, 1024, 1024, 2048, 2048, int4=4096),  # Ada AD102, AD104
        (9, 0): Rates(256, 2048, 4096, 4096, 8192, 8192),  # Hopper GH100
        (10, 0): Rates(256, 4096, 8192, 8192, 16384, 16384, fp4=32768),  # Blackwell GB100
        (12, 0): Rates(256, 512, 1024, 1024, 2048, 2048, fp4=4096),  # Blackwell GB202
    }
)

#: The clock of the vendor's figures for tensor cores, where it is not the highest one. Hopper's
#: 989.4 TFLOPS are at 1830 MHz; the 2250 of B200 follow from 1856, which no white paper says.
_TENSOR_CLOCK_MHZ: Final = MappingProxyType({"H100": 1830, "H200": 1830, "B200": 1856})

#: Whose tensor cores accumulate in float32 at half the rate: of GeForce, sums of integers do not.
#: The A10G's sheet has half of everything; what it says of integers could not be checked.
_HALVED: Final = MappingProxyType(
    {
        "RTX 3090": frozenset({"tf32", "fp16", "bf16"}),
        "RTX 4090": frozenset({"tf32", "fp16", "bf16", "fp8"}),
        "A10G": frozenset({"tf32", "fp16", "bf16", "int8", "int4"}),
    }
)


@dataclass(frozen=True, slots=True)
class Roofline:
    """What a device does at most: it is as fast as its memory, or as its arithmetic."""

    name: str
    memory_bytes: int | None
    """None where nobody told."""
    bandwidth_bytes_per_sec: Fraction
    compute_flops: Fraction
    dtype: str = ""
    """What is computed; nothing where nobody told."""

    @property
    def ridge(self) -> Fraction:
        """FLOPs per byte from which on arithmetic is what limits it."""
        return self.compute_flops / self.bandwidth_bytes_per_sec

    def is_memory_bound(self, intensity: Fraction) -> bool:
        """Whether it waits for its memory; at the ridge point it does not."""
        return intensity < self.ridge

    def attainable(self, intensity: Fraction) -> Fraction:
        """FLOPs a second, of an operation that has so many per byte."""
        return min(self.compute_flops, intensity * self.bandwidth_bytes_per_sec)

    def seconds(self, flops: int, nbytes: Fraction) -> Fraction:
        """What an operation takes at least."""
        return max(flops / self.compute_flops, nbytes / self.bandwidth_bytes_per_sec)


def roof(profile: DeviceProfile, dtype: str) -> Roofline:
    """The roof of a device that computes in a dtype, or in what it has instead."""
    computed = computed_in(profile, dtype)
    return Roofline(
        profile.name,
        profile.memory_bytes,
        Fraction(bandwidth(profile)),
        Fraction(compute(profile, computed)),
        computed,
    )


def bandwidth(profile: DeviceProfile) -> int:
    """Bytes a second of the device's memory: twice a clock, on every line of its bus.

    The clock is the one that CUDA reports, so it is twice for every kind of memory: GDDR5X, GDDR6
    and GDDR6X, which send more often, are reported with a clock that many times theirs.
    """
    return 2 * profile.memory_clock_mhz * 10**6 * profile.bus_bits // 8


def computed_in(profile: DeviceProfile, dtype: str) -> str:
    """What the device computes a dtype in: itself, or the next that it has something for."""
    while not getattr(RATES[profile.compute_capability], dtype):
        dtype = _INSTEAD[dtype]
    return dtype


def compute(profile: DeviceProfile, dtype: str) -> int:
    """FLOPs a second of dense matrix products in a dtype that the device has."""
    rate = getattr(RATES[profile.compute_capability], dtype)
    if dtype in _HALVED.get(profile.name, ()):
        rate //= 2
    clock = profile.clock_mhz
    if dtype != "fp32":
        clock = _TENSOR_CLOCK_MHZ.get(profile.name, clock)
    return int(profile.multiprocessors * clock * 10**6 * rate)


def dtype_named(name: str, what: str) -> str:
    """The dtype of that name, or of torch's.

    Raises:
        BudgetError: there is none.
    """
    found = _LONG.get(name, name)
    if found not in DTYPES:
        raise BudgetError(f"{what}: expected one of {', '.join(DTYPES)}, got {shown(name)}")
    return found
