"""Finds the cuDNN of NVIDIA's Python packages, and what its planner needs besides."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import BackendUnavailable
from . import torch_build

_CUDNN = "*/lib/libcudnn.so.9"
#: cuDNN and NVRTC open these by name, and the loader has no path to them. Without NVRTC cuDNN would
#: plan with other engines, and other workspaces.
_NEEDED = ("*/lib/libcublasLt.so.*", "*/lib/libnvrtc-builtins.so.*", "*/lib/libnvrtc.so.*")
_INSTALL = 'pip install "pytest-attnmem[cudnn]"'


@dataclass(frozen=True, slots=True)
class CudnnPackage:
    """An installed cuDNN."""

    libraries: tuple[Path, ...]  # to be loaded in this order; cuDNN is the last
    major: int  # of CUDA


def find() -> CudnnPackage:
    """Returns the cuDNN that this Python finds.

    Raises:
        BackendUnavailable: a package is missing, or this is not Linux.
    """
    if sys.platform != "linux":
        raise BackendUnavailable(f"its planner needs Linux, and this is {sys.platform}")
    return describe(torch_build.packages())


def describe(roots: Sequence[Path]) -> CudnnPackage:
    """Returns the cuDNN in NVIDIA's packages (folders named ``nvidia``)."""
    found = [
        next((path for root in roots for path in sorted(root.glob(pattern))), None)
        for pattern in (*_NEEDED, _CUDNN)
    ]
    libraries = tuple(path for path in found if path is not None)
    if len(libraries) < len(found):
        raise BackendUnavailable(_INSTALL)
    return CudnnPackage(libraries, int(libraries[0].name.rpartition(".")[2]))
