"""The facts of this process that memory may depend on, and the switch that keeps workspaces."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Any, Final

from ..allocator.configuration import VARIABLES
from ..torch_releases import Version

#: The variables that configure PyTorch's allocator and the workspaces of its libraries.
SETTINGS: Final = (*VARIABLES, "CUBLAS_WORKSPACE_CONFIG")


def describe() -> dict[str, Any]:
    """Returns versions and devices; those that torch knows only if something imported it."""
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
    cuda = torch.version.cuda  # of another type where a simulated device says it
    facts |= {"torch": str(torch.__version__), "cuda": cuda if type(cuda) is str else None}
    facts |= {"device": platform.machine(), "threads": torch.get_num_threads()}
    if torch.cuda.is_initialized():
        major, minor = torch.cuda.get_device_capability()
        facts |= {"device": torch.cuda.get_device_name(), "compute_capability": f"{major}.{minor}"}
        facts["allocator"] = {
            "backend": torch.cuda.get_allocator_backend(),
            **{name: os.environ[name] for name in SETTINGS if name in os.environ},
        }
    if os.environ.get("ATTNMEM_NULL_PROFILE"):
        from ..nulldevice.counts import counted

        facts["null_device"] = counted()
    return facts


def merged(first: dict[str, Any] | None, other: dict[str, Any]) -> dict[str, Any]:
    """Returns the facts of two processes that ran parts of one session, their counts added up."""
    if first is None or first.get("torch") is None:
        return other
    counts, more = first.get("null_device"), other.get("null_device")
    if not (counts and more):
        return first
    calls = dict(counts["unknown_calls"])
    for name, count in more["unknown_calls"].items():
        calls[name] = calls.get(name, 0) + count
    reads = counts["device_reads"] + more["device_reads"]
    return {**first, "null_device": {**counts, "unknown_calls": calls, "device_reads": reads}}


#: The first version in which each product allocates the workspace of its library and frees it
#: (pytorch#194311), unless the variable is ``1`` when the process runs its first product.
_EAGER: Final[Version] = (2, 15)
_VARIABLE: Final = "TORCH_CUBLAS_WORKSPACE_CACHE"


def are_kept(version: Version, environ: Mapping[str, str] = os.environ) -> bool:
    """Returns True if that version of PyTorch keeps workspaces in this environment."""
    return version < _EAGER or environ.get(_VARIABLE) == "1"


@contextmanager
def kept_workspaces(environ: MutableMapping[str, str] = os.environ) -> Iterator[None]:
    """Makes PyTorch keep workspaces for the body, unless the environment decides already."""
    if _VARIABLE in environ:
        yield
        return
    environ[_VARIABLE] = "1"
    try:
        yield
    finally:
        environ.pop(_VARIABLE, None)
