"""What a build of PyTorch for CUDA says of itself, on a simulated device.

A program that asks takes the branch that it takes on a device, as libraries do where they ask
``torch.version.cuda``.
"""

from __future__ import annotations

from typing import Any

import torch

from ...certified.certificate import newest_for, packaged
from ...torch_releases import Version


class SimulatedVersion(str):
    """A version of CUDA that this build does not have."""

    __slots__ = ()


def patches(version: Version) -> dict[tuple[Any, str], Any]:
    """Returns the answers of that version of PyTorch, by owner and name.

    One without rules answers as the newest that has them.
    """
    build = newest_for(version) or [*packaged()][-1]
    cuda, cudnn = SimulatedVersion(build.cuda), _number(build.cudnn, (10_000, 100, 1))
    return {
        (torch.version, "cuda"): torch.version.cuda or cuda,
        (torch.backends.cudnn, "is_available"): lambda: True,
        (torch.backends.cudnn, "version"): lambda: cudnn,
        (torch._C, "_cuda_getCompiledVersion"): lambda: _number(cuda, (1000, 10)),
        (torch._C, "_cuda_isCurrentStreamCapturing"): lambda: False,
        (torch.cuda.graphs, "is_current_stream_capturing"): lambda: False,
        (torch._C, "_cuda_tunableop_is_enabled"): lambda: False,
        **{(torch.cuda.profiler, name): _nothing for name in ("start", "stop")},
    }


def _number(version: str, places: tuple[int, ...]) -> int:
    """Returns 92000 for ``9.20.0``, and 13020 for ``13.2``."""
    parts = map(int, version.split("."))
    return sum(part * place for part, place in zip(parts, places, strict=True))


def _nothing() -> None:
    """Does nothing: no profiler of a device runs."""
