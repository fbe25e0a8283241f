"""Marks what Triton's kernels write, by hand and compiled: nobody knows the values."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import torch

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
        if name in sys.modules:
            _follow(owner, method, sys.modules[name])
        else:
            sys.meta_path.insert(0, _AfterImport(name, partial(_follow, owner, method)))


class _AfterImport(MetaPathFinder):
    """Changes a module once it is imported; the import of compilers takes seconds."""

    def __init__(self, name: str, change: Callable[[ModuleType], None]) -> None:
        self._name = name
        self._change = change

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        sys.meta_path.remove(self)
        spec = find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _Changing(spec.loader, self._change)
        return spec


class _Changing(Loader):
    def __init__(self, loader: Loader, change: Callable[[ModuleType], None]) -> None:
        self._loader = loader
        self._change = change

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        self._change(module)


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
