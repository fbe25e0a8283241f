"""Functions of C++ that a build without CUDA lacks, on one simulated device.

``nn.DataParallel`` scatters to one device by a view, and gathers nothing; ranges of NVTX are marks
for a profiler.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch


def patches() -> dict[tuple[Any, str], Any]:
    """Returns the functions by owner and name."""

    def scatter(
        tensor: torch.Tensor, devices: Any, sizes: Any = None, dim: int = 0, streams: Any = None
    ) -> tuple[torch.Tensor, ...]:
        return tuple(tensor.to("cuda").chunk(1, dim))

    ranges = SimpleNamespace(
        rangePushA=lambda _: 0,
        rangePop=lambda: 0,
        rangeStartA=lambda _: 0,
        rangeEnd=lambda _: None,
        markA=lambda _: None,
    )
    return {(torch._C, "_scatter"): scatter, (torch.cuda.nvtx, "_nvtx"): ranges}
