"""The facts of this process that memory may depend on."""

from __future__ import annotations

import os
import platform
import sys
from typing import Any


def describe() -> dict[str, Any]:
    """Versions and devices; what torch knows only where something imported it."""
    facts: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": sys.platform,
        "torch": None,
        "cuda": None,
        "device": None,
        "compute_capability": None,
        "allocator": None,
        "threads": None,
    }
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "__version__"):
        return facts
    facts |= {"torch": str(torch.__version__), "cuda": torch.version.cuda}
    facts |= {"device": platform.machine(), "threads": torch.get_num_threads()}
    if torch.cuda.is_initialized():
        major, minor = torch.cuda.get_device_capability()
        facts |= {"device": torch.cuda.get_device_name(), "compute_capability": f"{major}.{minor}"}
        settings = ("PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "CUBLAS_WORKSPACE_CONFIG")
        facts["allocator"] = {
            "backend": torch.cuda.get_allocator_backend(),
            **{name: os.environ[name] for name in settings if name in os.environ},
        }
    return facts
