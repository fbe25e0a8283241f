"""The kernels of memory-efficient attention's backward, and the choice of one for a device.

Source: ``aten/src/ATen/native/transformers/cuda/mem_eff_attention/kernels/cutlassB.h`` for the list
and its order, ``kernel_backward.h`` for the properties of a kernel, and the launch in
``attention_backward.cu`` for the choice: the first kernel that is long enough for a row and whose
shared memory fits. The bytes of shared memory are those that the 2.13 wheel requests at launch.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ....profiles import DeviceProfile


class BackwardKernel(NamedTuple):
    """A kernel with blocks of ``rows`` queries and ``columns`` keys, for a limited head dim."""

    rows: int
    columns: int
    longest: int
    shared_bytes: int  # that a block asks for: the most of its dtypes, with dropout and without
    architecture: int  # 50, 70, 75 or 80
    half: bool
    drops: bool = True
    only_on: tuple[int, ...] = ()

    @property
    def sums_rows(self) -> bool:
        """Returns True if the kernel computes the row sums of dO·O (``kKernelComputesDelta``)."""
        return self.half and (self._in_registers or self.architecture != 70)

    @property
    def accumulates_keys(self) -> bool:
        """Returns True if dK and dV are added up in float in memory (``kNeedsAccumGradK``)."""
        return self.half and not self._in_registers

    @property
    def accumulates_queries(self) -> bool:
        """Returns True if dQ is added up in float in memory (``kNeedsAccumGradQ``)."""
        return self.half or self.splits_keys

    @property
    def splits_keys(self) -> bool:
        """Returns True if blocks of keys run at the same time (``kEnableSplitKeys``)."""
        return self.architecture >= 70

    @property
    def _in_registers(self) -> bool:
        return self.longest <= self.rows


def select(
    profile: DeviceProfile, *, half: bool, longest: int, drops: bool
) -> BackwardKernel | None:
    """Returns the kernel that the device runs for rows of that length; None if none fits."""
    major, minor = profile.compute_capability
    capability = 10 * major + minor
    architecture = next(one for one in (80, 75, 70, 50) if capability >= one)
    for kernel in _KERNELS[architecture, half]:
        if (
            kernel.longest >= longest
            and (kernel.drops or not drops)
            and kernel.shared_bytes <= profile.architecture.shared_bytes_per_block
            and (not kernel.only_on or capability in kernel.only_on)
        ):
            return kernel
    return None


def _kernels(
    architecture: int, half: bool, small: int, shared: int, large: int | None = None, /
) -> tuple[BackwardKernel, ...]:
    """Returns kernels with blocks of 64 queries, and before them with blocks of 128 if any."""
    kernels = [BackwardKernel(64, 64, longest, small, architecture, half) for longest in (32, 64)]
    for longest in (128, _ANY):
        if large is not None:
            kernels.append(BackwardKernel(128, 64, longest, large, architecture, half))
        kernels.append(BackwardKernel(64, 64, longest, shared, architecture, half))
    return tuple(kernels)


_ANY: Final = 65536
_AMPERE_HALF: Final = _kernels(80, True, 52480, 34048, 60928)
_KERNELS: Final[Mapping[tuple[int, bool], tuple[BackwardKernel, ...]]] = MappingProxyType(
    {
        (80, True): (
            *_AMPERE_HALF[:2],
            BackwardKernel(128, 64, 96, 91648, 80, True, drops=False, only_on=(86, 89)),
            BackwardKernel(128, 128, 128, 162304, 80, True),
            *_AMPERE_HALF[3:],
        ),
        (80, False): _kernels(80, False, 53504, 67840, 121344),
        (75, True): _kernels(75, True, 27904, 27904, 54784),
        (75, False): _kernels(75, False, 37120, 37120),
        (70, True): _kernels(70, True, 25088, 25088, 50176),
        (70, False): _kernels(70, False, 37120, 37120),
        (50, True): _kernels(50, True, 19232, 19232),
        (50, False): _kernels(50, False, 37120, 37120),
    }
)
