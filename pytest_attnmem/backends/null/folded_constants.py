"""Lets Inductor read the true values of constants while it folds them.

A graph is compiled under a fake mode, whose operators are not noted. To fold constants, Inductor
leaves the fake mode, makes them on the device and reads them; on a device that computes nothing it
would find zeros, and compile another program (torch/_inductor/fx_passes/joint_graph.py).
"""

from __future__ import annotations

from functools import partial, wraps
from types import ModuleType
from typing import Any

import torch

from ..import_watch import after_import

#: The functions that compute constants, and their modules.
_FOLDING = (
    ("torch._inductor.fx_passes.joint_graph", "constant_fold_uniform_value"),
    ("torch._inductor.constant_folding", "constant_fold"),
)


def note_constants(keys: Any) -> None:
    """Makes the operators inside constant folding include these dispatch keys."""
    for name, function in _FOLDING:
        after_import(name, partial(_include, function, keys))


def _include(name: str, keys: Any, module: ModuleType) -> None:
    fold: Any = getattr(module, name)

    @wraps(fold)
    def folded(*args: Any, **kwargs: Any) -> Any:
        included = torch._C._dispatch_tls_local_include_set() | keys
        excluded = torch._C._dispatch_tls_local_exclude_set() - keys
        with torch._C._ForceDispatchKeyGuard(included, excluded):
            return fold(*args, **kwargs)

    setattr(module, name, folded)
