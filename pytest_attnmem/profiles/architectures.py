"""The facts that all devices of a compute capability share.

Limits are those of the CUDA C++ Programming Guide, rates those of NVIDIA's white paper of the
architecture; a row with other sources names them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

_KIB: Final = 1 << 10


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
    """The limits and rates of a multiprocessor."""

    shared_bytes_per_block: int  # at most, when a kernel opts in
    shared_bytes_per_multiprocessor: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    rates: Rates
    kernels: tuple[int, int] | None
    """The compute capability of the kernels that PyTorch's builds for CUDA 13 run on it; None if
    they have none. The builds have 7.5, 8.0, 8.6, 9.0, 10.0 and 12.0 (``get_arch_list``), and a
    device runs those of its major number that are not above it; Orin (8.7) runs only its own
    (``_warn_unsupported_code`` in ``torch/cuda/__init__.py``)."""


def _row(
    block_kib: int,
    multiprocessor_kib: int,
    threads: int,
    blocks: int,
    rates: Rates,
    kernels: tuple[int, int] | None = None,
) -> Architecture:
    shared = (block_kib * _KIB, multiprocessor_kib * _KIB)
    return Architecture(*shared, threads, blocks, rates, kernels)


ARCHITECTURES: Final[Mapping[tuple[int, int], Architecture]] = MappingProxyType(
    {
        # Pascal GP100 and GP104 sum in half precision if they compute in it: left out.
        (6, 0): _row(48, 64, 2048, 32, Rates(128)),
        (6, 1): _row(48, 96, 2048, 32, Rates(256)),
        # Volta GV100
        (7, 0): _row(96, 96, 2048, 32, Rates(128, fp16=1024)),
        # Turing TU104
        (7, 5): _row(64, 64, 1024, 16, Rates(128, fp16=1024, int8=2048, int4=4096), (7, 5)),
        # Ampere GA100 and GA102
        (8, 0): _row(
            163, 164, 2048, 32, Rates(128, 1024, 2048, 2048, int8=4096, int4=8192), (8, 0)
        ),
        (8, 6): _row(99, 100, 1536, 16, Rates(256, 512, 1024, 1024, int8=2048, int4=4096), (8, 6)),
        # Orin: 5.3 TFLOPS in fp32 and 85 TOPS in int8 at 1.3 GHz (NVIDIA's technical brief), the
        # int8 rate of a GA100; the rates of its other dtypes follow in the ratios of a GA100.
        (8, 7): _row(163, 164, 1536, 16, Rates(256, 1024, 2048, 2048, int8=4096, int4=8192)),
        # Ada AD102 and AD104
        (8, 9): _row(99, 100, 1536, 24, Rates(256, 512, 1024, 1024, 2048, 2048, int4=4096), (8, 6)),
        # Hopper GH100
        (9, 0): _row(227, 228, 2048, 32, Rates(256, 2048, 4096, 4096, 8192, 8192), (9, 0)),
        # Blackwell GB100
        (10, 0): _row(
            227, 228, 2048, 32, Rates(256, 4096, 8192, 8192, 16384, 16384, fp4=32768), (10, 0)
        ),
        # Blackwell Ultra: fp4 is three times as fast as fp8 (NVIDIA's blog on the architecture). No
        # source has the rate of int8, which is far below that of fp8: left out.
        (10, 3): _row(227, 228, 2048, 32, Rates(256, 4096, 8192, 8192, 16384, fp4=49152), (10, 0)),
        # Blackwell GB202
        (12, 0): _row(
            99, 100, 1536, 24, Rates(256, 512, 1024, 1024, 2048, 2048, fp4=4096), (12, 0)
        ),
    }
)
