"""Refuses a null device for which this build of PyTorch has no kernels.

On a real one the first kernel fails: "no kernel image is available for execution on the device".
"""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable

import torch

from ...errors import BackendUnavailable
from ...nulldevice.kept_build import check_imported
from ...nulldevice.launch import Devices, present

_FLAG = re.compile(r"(sm|compute)_(\d+)([af]?)")
#: Orin and Thor are Tegras, which run only binaries for their own compute capability.
_TEGRA = (87, 101)


def refuse_without_kernels() -> None:
    """Raises BackendUnavailable if torch is another one, or was not built for this device.

    Source: ``_check_capability`` in ``torch/cuda/__init__.py``, which warns of such a device.
    """
    running = present()
    check_imported(str(torch.__file__), os.environ)
    if running is not None:
        refuse(running, torch.__version__, _built_for())


def _built_for() -> list[str]:
    """Returns what torch has kernels for, such as ``sm_90``.

    A copy of this process asks: PyTorch lets no fork of a process that asked use CUDA.
    """
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the copy lacks
        copy = os.fork()
    if not copy:
        os.write(write, (torch._C._cuda_getArchFlags() or "").encode())
        os._exit(0)
    os.close(write)
    with open(read, encoding="utf-8") as flags:
        found = flags.read().split()
    os.waitpid(copy, 0)
    return found


def refuse(running: Devices, version: str, flags: Iterable[str]) -> None:
    """Raises BackendUnavailable if none of these kernels, such as ``sm_86``, runs on the device."""
    flags = list(flags)
    major, minor = running.profile.compute_capability
    if any(_runs(flag, 10 * major + minor) for flag in flags):
        return
    raise BackendUnavailable(
        f"torch {version} has no kernels for null:{running}, whose compute capability is"
        f' {major}.{minor}: it has {", ".join(flags)}; CUDA would say "no kernel image is'
        ' available for execution on the device"; take another device, or a build of torch for'
        " this one"
    )


def _runs(flag: str, capability: int) -> bool:
    """Returns True for PTX that is not newer, and for binaries of the same major number."""
    found = _FLAG.fullmatch(flag)
    if found is None:
        return False
    kind, built, suffix = found[1], int(found[2]), found[3]
    if built == capability:
        return True
    if suffix == "a" or built > capability:
        return False
    if kind == "compute":
        return not suffix
    return built // 10 == capability // 10 and capability not in _TEGRA
