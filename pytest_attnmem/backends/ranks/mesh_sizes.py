"""The sizes of a program's device meshes, by the names of their dimensions: ``tp``, ``dp``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from ..import_watch import after_import

_MODULE = "torch.distributed.device_mesh"
_SIZES = "_attnmem_sizes"


def watch_meshes() -> None:
    """Begins to note the sizes of device meshes, and forgets those of earlier meshes."""
    after_import(_MODULE, _noted)
    forget_meshes()


def forget_meshes() -> None:
    """Forgets all sizes."""
    getattr(sys.modules.get(_MODULE), _SIZES, {}).clear()


def mesh_sizes() -> dict[str, int]:
    """Returns the size of each named dimension; without the names that have two sizes."""
    noted = getattr(sys.modules.get(_MODULE), _SIZES, {})
    return {name: next(iter(sizes)) for name, sizes in noted.items() if len(sizes) == 1}


def _noted(module: ModuleType) -> None:
    """Makes each new mesh note its sizes."""
    mesh: Any = module.DeviceMesh
    if hasattr(module, _SIZES):
        return
    noted: dict[str, set[int]] = {}
    setattr(module, _SIZES, noted)
    make = mesh.__init__

    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        for name, size in zip(self.mesh_dim_names or (), self.shape, strict=False):
            noted.setdefault(name, set()).add(int(size))

    mesh.__init__ = made
