"""The built-in profiles: one row for each device, and the sources of its facts.

``docs/reference/devices.md`` is made from these rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from .device_profile import DeviceProfile

_EIGHTH_OF_A_GIB: Final = 1 << 27


class _Whole(NamedTuple):
    """The device that is cut; the facts are those of its row below."""

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


_MIB: Final = 1 << 20

# GeForce boards sum in float32 at half the rate (white papers of GA102, Ada and GB202); sums of
# integers, and those of fp4, keep the full rate.
_GEFORCE_30: Final = frozenset({"tf32", "fp16", "bf16"})
_GEFORCE_40: Final = frozenset({"tf32", "fp16", "bf16", "fp8"})
# Boards of NVLink machines (SXM) access each other's memory. So do some on PCIe, by the machine and
# its settings; GeForce boards and slices do not.

# The data sheet of the A10G halves every rate; no second source confirms those of integers.
_A10G: Final = frozenset({"tf32", "fp16", "bf16", "int8", "int4"})

_XLA: Final = "github.com/openxla/xla xla/backends/gpu/target_config/specs"
_QUERIES: Final = "deviceQuery in github.com/thamada/nvidia-smi"

_PASCAL_TO_AMPERE: Final = (
    DeviceProfile(
        *("GTX 1080", 8_513_978_368, (6, 1), 20, 2 * _MIB, 256, 1733, 5005),
        source="NVIDIA's white paper of the GTX 1080; memory: deviceQuery in public logs",
    ),
    DeviceProfile(
        *("P100", 17_066_885_120, (6, 0), 56, 4 * _MIB, 4096, 1480, 715),
        peer_access=True,
        source=f"{_XLA}/p100.txtpb (SXM2)",
    ),
    DeviceProfile(
        *("V100", 16_945_512_448, (7, 0), 80, 6 * _MIB, 4096, 1530, 877),
        peer_access=True,
        source=f"{_XLA}/v100.txtpb (SXM2); memory: deviceQuery in public logs",
    ),
    DeviceProfile(
        *("T4", 15_843_721_216, (7, 5), 40, 4 * _MIB, 256, 1590, 5001),
        source="deviceQuery in chiemon.github.io/2024/12/25/显卡信息.html",
    ),
    DeviceProfile(
        *("A30", 24_060 * _MIB, (8, 0), 56, 24 * _MIB, 3072, 1440, 1215),
        source="nvbench in github.com/JakeFlasher/benchmark_flash_attention"
        " results_kvcache/window-4096.md: memory in MiB",
    ),
    DeviceProfile(
        *("A100-40GB", 42_298_834_944, (8, 0), 108, 40 * _MIB, 5120, 1410, 1215),
        peer_access=True,
        source="deviceQuery in github.com/bottlerocket-os/bottlerocket/pull/3873",
    ),
    DeviceProfile(
        *("A100-80GB", 85_031_714_816, (8, 0), 108, 40 * _MIB, 5120, 1410, 1593),
        peer_access=True,
        source="deviceQuery in gist.github.com/gengwg/3520df2ebf8872e5ee4818367e3a4122, whose board"
        " has 85,198,045,184 B",
    ),
    DeviceProfile(
        *("A10G", 23_836_098_560, (8, 6), 80, 6 * _MIB, 384, 1710, 6251),
        half_rate=_A10G,
        source="NVIDIA's data sheet of the A10G; L2 cache: an A10 in github.com/aalanwyr/face2cuda;"
        " torch prints between 22,587 and 22,732 MiB",
    ),
    DeviceProfile(
        *("RTX 3090", 25_447_170_048, (8, 6), 82, 6 * _MIB, 384, 1695, 9751),
        half_rate=_GEFORCE_30,
        source=f"{_QUERIES} gls/RTX3090_deviceQuery.py, whose board has 25,327,697,920 B",
    ),
    DeviceProfile(
        *("Jetson AGX Orin", 62_841 * _MIB, (8, 7), 16, 4 * _MIB, 256, 1300, 3200),
        source="github.com/tmcdonell/cuda/issues/77 (64 GB), which prints 61 GB; memory in MiB:"
        " deviceQuery in public set-up guides; bus and memory clock: NVIDIA's technical brief",
    ),
    DeviceProfile(
        *("Jetson Orin NX", 15_189_422_080, (8, 7), 8, 2 * _MIB, 128, 918, 3200),
        source="deviceQuery in gist.github.com/atinfinity/8cede915acda05d0ff427c09604735dd (16 GB);"
        " bus and memory clock: NVIDIA's data sheet, 102.4 GB/s",
    ),
)

_ADA: Final = (
    DeviceProfile(
        *("L4", 23_688_380_416, (8, 9), 58, 48 * _MIB, 192, 2040, 6251),
        source=f"{_QUERIES} gls/L4_deviceQuery.py, whose board has 23,570,219,008 B",
    ),
    DeviceProfile(
        *("L40S", 47_697_362_944, (8, 9), 142, 96 * _MIB, 384, 2520, 9001),
        source=f"{_QUERIES} nvsim/L40S_deviceQuery.py, whose board has 47,803,596,800 B",
    ),
    DeviceProfile(
        *("RTX 4090", 25_393_692_672, (8, 9), 128, 72 * _MIB, 384, 2520, 10501),
        half_rate=_GEFORCE_40,
        source=f"{_QUERIES} gls/RTX4090_deviceQuery.py, whose board has 25,386,352,640 B",
    ),
)

# H100 and H200: 989.4 TFLOPS in fp16 are those of 1830 MHz; H100 PCIe: 756 of 1620 MHz. B200 and
# B300: 2250 TFLOPS follow from 1856 MHz, GB200: 2500 from 2008, clocks that no white paper states.
_HOPPER: Final = (
    DeviceProfile(
        *("H100", 84_942_979_072, (9, 0), 132, 50 * _MIB, 5120, 1980, 2619, 1830),
        peer_access=True,
        source=f"{_XLA}/h100_sxm.txtpb",
    ),
    DeviceProfile(
        *("H100-PCIe", 84_942_979_072, (9, 0), 114, 50 * _MIB, 5120, 1755, 1593, 1620),
        source=f"{_XLA}/h100_pcie.txtpb",
    ),
    DeviceProfile(
        *("H200", 150_119_382_016, (9, 0), 132, 60 * _MIB, 6144, 1980, 3201, 1830),
        peer_access=True,
        source="clocks: github.com/awslabs/amazon-eks-ami/pull/1985; bus: NVIDIA's data sheet;"
        " torch prints an L2 cache of 60 MiB, and 143,156 MiB of memory on one board",
    ),
)

_H20: Final = DeviceProfile(
    # 148 TFLOPS in fp16 are a quarter of those of a Hopper with 78 multiprocessors at 1852 MHz.
    *("H20", 97_285 * _MIB, (9, 0), 78, 60 * _MIB, 6144, 1980, 2604, 463),
    peer_access=True,
    source="github.com/RightNow-AI/AutoMegaKernel/pull/3; memory in MiB: torch in public Triton"
    " kernels; memory clock: that of 4.0 TB/s on six stacks; TFLOPS: zangshuxian.com, of NVIDIA's"
    " data sheet",
)

_BLACKWELL: Final = (
    DeviceProfile(
        *("B200", 191_503_007_744, (10, 0), 148, 253 * _MIB // 2, 7680, 1965, 3996, 1856),
        peer_access=True,
        source=f"github.com/pytorch/ao/pull/4002; clock: {_XLA}/b200.txtpb, whose board has"
        " 191,514,411,008 B",
    ),
    DeviceProfile(
        *("GB200", 197_897_748_480, (10, 0), 152, 135_528_448, 7936, 2062, 3996, 2008),
        peer_access=True,
        source=f"{_XLA}/gb200.txtpb",
    ),
    DeviceProfile(
        *("B300", 274_113 * _MIB, (10, 3), 148, 253 * _MIB // 2, 7680, 2032, 3996, 1856),
        peer_access=True,
        source="cudaGetDeviceProperties in github.com/ademeure/QuickRunCUDA B300_PIPE_CATALOG.md:"
        " memory in MiB",
    ),
    DeviceProfile(
        *("RTX 5090", 33_680_457_728, (12, 0), 170, 96 * _MIB, 512, 2407, 14001),
        half_rate=_GEFORCE_40,
        source="deviceQuery in github.com/NVIDIA/nccl/issues/1637; clock: NVIDIA's white paper of"
        " GB202, as that board is overclocked",
    ),
    DeviceProfile(
        *("RTX PRO 6000", 97_250 * _MIB, (12, 0), 188, 128 * _MIB, 512, 2617, 14001),
        source=f"{_XLA}/rtx6000pro.txtpb and NVIDIA's white paper of RTX PRO; memory in MiB:"
        " torch on a Server Edition, 94.97 GiB in github.com/antirez/ds4/issues/431",
    ),
)

PROFILES: Final[Mapping[str, DeviceProfile]] = MappingProxyType(
    {p.name: p for p in (*_PASCAL_TO_AMPERE, *_ADA, *_HOPPER, _H20, *_BLACKWELL, *SLICES)}
)

#: The device that the null runtime and the simulation stand for by default.
DEFAULT_PROFILE: Final = "A100-80GB"
