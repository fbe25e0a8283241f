"""Makes the autotuner of compiled code take the first configuration: no kernel takes any time.

To time a kernel, it would copy tensors that the kernel changes to the host, which reads values that
nobody knows, and allocate memory on the device (torch/_inductor/runtime/triton_heuristics.py).
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from ..import_watch import after_import


def keep_first_configuration() -> None:
    """Replaces the timing of configurations, once compiled code is about to run."""
    after_import("torch._inductor.runtime.triton_heuristics", _replace)


def _replace(module: ModuleType) -> None:
    tuner: Any = module.CachingAutotuner
    tuner.bench = _alike


def _alike(self: Any, launcher: Any, *args: Any, **kwargs: Any) -> float:
    """Returns the same time for each configuration; of equal times, the first counts."""
    return 1.0
