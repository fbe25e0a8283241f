"""The bundled attention kernels: reference implementations, each with its memory model.

A kernel is one file, which ends with its row of the table: ``KERNEL = Kernel("name", …)``.
``KERNELS``, all rows, imports torch and every kernel when it is asked for, and not before.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .kernel import Kernel
from .registry import kernels

__all__ = ["KERNELS", "Kernel"]

KERNELS: tuple[Kernel, ...]

if not TYPE_CHECKING:  # a checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        """Returns the table, or a file of this folder."""
        if name == "KERNELS":
            return kernels()
        if not name.startswith("__") and find_spec(f"{__name__}.{name}"):
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
