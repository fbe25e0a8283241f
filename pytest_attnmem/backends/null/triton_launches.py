"""Marks what Triton's kernels write, by hand and compiled: nobody knows the values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from types import ModuleType
from typing import Any

import torch

from ..import_watch import after_import
from .noting import noting

#: The modules, classes and methods that launch a compiled kernel. PyTorch's class launches the
#: kernels of compiled code.
_LAUNCHERS = (
    ("triton.backends.nvidia.driver", "CudaLauncher", "__call__"),
    ("torch._inductor.runtime.static_triton_launcher", "StaticallyLaunchedTritonKernel", "run"),
)


def follow_triton() -> None:
    """Makes each launch of a Triton kernel record the tensors that it may have written."""
    for name, owner, method in _LAUNCHERS:
        after_import(name, partial(_follow, owner, method))


def _follow(owner: str, method: str, module: ModuleType) -> None:
    kind: Any = getattr(module, owner)
    setattr(kind, method, _followed(getattr(kind, method)))


def _followed(launch: Any) -> Any:
    def followed(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = noting()
        if found is None:
            return launch(self, *args, **kwargs)
        found.find_foreign_launches()
        result = launch(self, *args, **kwargs)
        written = _may_be_written(self, args)
        tensors = [arg for arg in written if isinstance(arg, torch.Tensor) and arg.is_cuda]
        found.lost(tensors, "a Triton kernel wrote it")
        return result

    return followed


def _may_be_written(kernel: Any, args: tuple[Any, ...]) -> Sequence[Any]:
    """Returns the arguments that a kernel may write: all but the inputs of compiled code.

    Inductor names its kernels ``triton_…``, and the arguments that they only read ``in_ptr…``
    (torch/_inductor/codegen/common.py, ``KernelArgs``). Three sizes and a stream come first.
    """
    if not str(getattr(kernel, "name", "")).startswith("triton_"):
        return args
    named = zip(kernel.arg_names, args[4:], strict=False)
    return [arg for name, arg in named if not name.startswith("in_ptr")]
