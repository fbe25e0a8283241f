"""The workspaces of cuBLAS and cuBLASLt (aten/src/ATen/cuda/CublasHandlePool.cpp). No torch."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ....measurement.environment import are_kept
from ....profiles import DeviceProfile
from ....torch_releases import Version

#: The libraries, as reports name them.
CUBLAS: Final = "cuBLAS"
CUBLASLT: Final = "cuBLASLt"

_PAIRS = re.compile(r":(\d+):(\d+)")


@dataclass(frozen=True, slots=True)
class Workspaces:
    """The workspaces that a version of PyTorch gives to its libraries, in bytes."""

    cublas: int
    cublaslt: int
    kept: bool
    """True if the first product of a thread and stream allocates a workspace and keeps it; False
    if each product allocates a workspace and frees it."""
    shared: bool
    """True if cuBLASLt uses the workspace of cuBLAS."""

    def of(self, library: str) -> tuple[str, int]:
        """Returns the library that owns the workspace of ``library``, and its bytes."""
        if library == CUBLASLT and not self.shared:
            return CUBLASLT, self.cublaslt
        return CUBLAS, self.cublas


def workspaces(profile: DeviceProfile, version: Version, environ: Mapping[str, str]) -> Workspaces:
    """Returns the workspaces of a device, with the settings in the environment.

    ``CUBLAS_WORKSPACE_CONFIG`` has pairs of KiB and count, ``:4096:2:16:8``, which are summed;
    ``CUBLASLT_WORKSPACE_SIZE`` has KiB. ``TORCH_CUBLAS_WORKSPACE_CACHE=1`` makes PyTorch 2.15 keep
    workspaces, as versions before it do; a kept workspace serves both libraries unless
    ``TORCH_CUBLASLT_UNIFIED_WORKSPACE=0``.
    """
    kept = are_kept(version, environ)
    pairs = _PAIRS.findall(environ.get("CUBLAS_WORKSPACE_CONFIG", ""))
    cublas = 32 << 20 if profile.compute_capability[0] in (9, 10, 12) else 8_519_680
    if pairs:
        cublas = sum(int(size) * int(number) << 10 for size, number in pairs)
    asked = environ.get("CUBLASLT_WORKSPACE_SIZE", "")
    cublaslt = (int(asked) if asked.isdecimal() else 1024) << 10
    shared = kept and environ.get("TORCH_CUBLASLT_UNIFIED_WORKSPACE") != "0"
    return Workspaces(cublas, cublaslt, kept, shared)
