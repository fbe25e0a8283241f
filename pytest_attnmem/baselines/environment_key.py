"""The part of the environment that memory depends on."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from typing import Any

from ..measurement.environment import SETTINGS, are_kept
from ..torch_releases import minor_version

_VERSION = re.compile(r" torch(\d\S*)")
_THREADS = re.compile(r"^cpu threads(\d+)\b")


def split(environment: str) -> tuple[str, str]:
    """Returns the environment without torch's version, and the version, ``2.13``.

    The version is empty if it is unknown: an earlier pytest-attnmem wrote none for ``cpu`` and
    ``simulated``.
    """
    found = _VERSION.search(environment)
    if found is None:
        return environment, ""
    return environment[: found.start()] + environment[found.end() :], found[1]


def threads_of(environment: str) -> int:
    """Returns the number of threads of the CPU; 0 where memory does not depend on it."""
    found = _THREADS.match(environment)
    return int(found[1]) if found else 0


def with_one_thread(environment: str) -> str:
    """Returns the environment with one thread of the CPU."""
    return _THREADS.sub("cpu threads1", environment)


def named(version: str) -> str:
    """Returns ``torch 2.13``; ``an unknown torch`` if the version is empty."""
    return f"torch {version}" if version else "an unknown torch"


def nearest(environment: str, others: Iterable[str]) -> str | None:
    """Returns which of *others* differs in torch's version alone; None if none does.

    The newest older version comes first, then the oldest newer version; an unknown version counts
    as the oldest.
    """
    place, version = split(with_one_thread(environment))
    if not version:
        return None
    alike = sorted(
        (_number(split(other)[1]), other)
        for other in others
        if other != environment and split(with_one_thread(other))[0] == place
    )
    older = [other for number, other in alike if number <= _number(version)]
    return older[-1] if older else alike[0][1] if alike else None


def _number(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))


def depends_on(backend: str, device: str) -> str:
    """Returns a text that is equal in environments where a test needs the same memory.

    Every built-in backend's text has torch's minor version, because kernels and libraries change
    with it: ``cpu threads1 torch2.13``, because CPU kernels keep scratch for each thread, and an
    entry is made with one;
    ``simulated:H100 torch2.13``; for CUDA the device and its compute capability, ``cuda NVIDIA H100
    80GB HBM3 sm90 torch2.13``. ``workspaces-in`` follows where a product allocates its workspace
    and frees it, and the allocator's configuration, if there is one.
    """
    kind = backend.partition(":")[0]
    torch = sys.modules.get("torch")
    if torch is None or kind not in ("cpu", "simulated", "null", "cuda", "accelerator"):
        return backend
    version = f"torch{'.'.join(str(torch.__version__).split('.')[:2])}"
    configured = () if kind in ("cpu", "accelerator") else (*_workspaces(torch), *_configured())
    return " ".join((backend, *_device(torch, kind, device), version, *configured))


def _device(torch: Any, kind: str, device: str) -> tuple[str, ...]:
    """Returns the facts of the device that memory depends on and the backend's name lacks."""
    if kind == "cpu":
        return ("threads1",)
    if kind == "simulated":
        return ()
    if kind == "accelerator":
        return (device.partition(":")[0],)
    major, minor = torch.cuda.get_device_capability(device)
    name = () if kind == "null" else (" ".join(torch.cuda.get_device_name(device).split()),)
    return (*name, f"sm{major}{minor}")


def _workspaces(torch: Any) -> tuple[str, ...]:
    return () if are_kept(minor_version(str(torch.__version__))) else ("workspaces-in",)


def _configured() -> tuple[str, ...]:
    """Returns the settings of the allocator, each with its parts in alphabetical order."""
    parts = (
        ",".join(sorted(part.strip() for part in os.environ.get(name, "").split(",")))
        for name in SETTINGS
    )
    return tuple(part for part in parts if part)
