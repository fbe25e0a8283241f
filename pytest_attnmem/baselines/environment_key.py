"""The part of the environment that memory depends on."""

from __future__ import annotations

import os
import sys
from typing import Any

#: What configures PyTorch's allocator and its libraries' workspaces.
_SETTINGS = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG")


def depends_on(backend: str, device: str) -> str:
    """A text that is the same wherever a test needs the same memory, and should differ elsewhere.

    ``cpu threads2``, whose kernels keep scratch for each; ``simulated:H100``; of CUDA the device,
    its compute capability, torch's minor version, ``cuda NVIDIA H100 80GB HBM3 sm90 torch2.13``,
    and how the allocator is configured, if it is.
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
    """Its name, unless the backend's name says it, and its compute capability."""
    major, minor = torch.cuda.get_device_capability(device)
    name = () if kind == "null" else (" ".join(torch.cuda.get_device_name(device).split()),)
    return (*name, f"sm{major}{minor}")


def _configured() -> tuple[str, ...]:
    """What was set of the allocator, in an order of its own."""
    parts = (
        ",".join(sorted(part.strip() for part in os.environ.get(name, "").split(",")))
        for name in _SETTINGS
    )
    return tuple(part for part in parts if part)
