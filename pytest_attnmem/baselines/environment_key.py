"""The part of the environment that memory depends on."""

from __future__ import annotations

import os
import sys
from typing import Any

from ..measurement.environment import SETTINGS


def depends_on(backend: str, device: str) -> str:
    """Returns a text that is equal in environments where a test needs the same memory.

    ``cpu threads2``, because CPU kernels keep scratch for each thread; ``simulated:H100``; for
    CUDA the device, its compute capability and torch's minor version, ``cuda NVIDIA H100 80GB HBM3
    sm90 torch2.13``, and the allocator's configuration if there is one.
    """
    kind = backend.partition(":")[0]
    torch = sys.modules.get("torch")
    configured = _configured() if kind in ("cuda", "null", "simulated") else ()
    if torch is not None and kind == "cpu":
        return f"cpu threads{torch.get_num_threads()}"
    if torch is None or kind not in ("cuda", "null", "accelerator"):
        return " ".join((backend, *configured))
    version = f"torch{'.'.join(str(torch.__version__).split('.')[:2])}"
    if kind == "accelerator":
        return f"{backend} {device.partition(':')[0]} {version}"
    return " ".join((backend, *_device(torch, kind, device), version, *configured))


def _device(torch: Any, kind: str, device: str) -> tuple[str, ...]:
    """Returns the device's name, unless the backend's name has it, and its compute capability."""
    major, minor = torch.cuda.get_device_capability(device)
    name = () if kind == "null" else (" ".join(torch.cuda.get_device_name(device).split()),)
    return (*name, f"sm{major}{minor}")


def _configured() -> tuple[str, ...]:
    """Returns the settings of the allocator, each with its parts in alphabetical order."""
    parts = (
        ",".join(sorted(part.strip() for part in os.environ.get(name, "").split(",")))
        for name in SETTINGS
    )
    return tuple(part for part in parts if part)
