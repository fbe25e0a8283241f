"""The size of cuBLAS workspaces (aten/src/ATen/cuda/CublasHandlePool.cpp)."""

from __future__ import annotations

import os
import re

from ...profiles import DeviceProfile

_PAIRS = re.compile(r":(\d+):(\d+)")


def workspace_bytes(profile: DeviceProfile) -> int:
    """Returns the bytes that PyTorch gives to each cuBLAS handle on each stream.

    ``CUBLAS_WORKSPACE_CONFIG`` has pairs of KiB and count, ``:4096:2:16:8``, which are summed.
    """
    pairs = _PAIRS.findall(os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""))
    if pairs:
        return sum(int(size) * int(number) << 10 for size, number in pairs)
    return 32 << 20 if profile.compute_capability[0] in (9, 10, 12) else 8_519_680
