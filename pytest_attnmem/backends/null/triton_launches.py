"""Notes the launches of Triton kernels that are written by hand.

What other kernels of Triton write is not known: those of compiled code, and those of Gluon.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any, Final

import torch

from ...values.host_operators.triton_kernels import Launch
from ..import_watch import after_import
from .noting import Expected, noting

#: The modules, classes and methods that launch a compiled kernel. PyTorch's class launches the
#: kernels of compiled code.
_LAUNCHERS = (
    ("triton.backends.nvidia.driver", "CudaLauncher", "__call__"),
    ("torch._inductor.runtime.static_triton_launcher", "StaticallyLaunchedTritonKernel", "run"),
)
_TENSORS: Final = (torch.Tensor, torch.nn.Parameter)
#: The arguments of a kernel that cannot hide a tensor, besides Triton's own types.
_PLAIN: Final = (int, float, str, type(None))


def follow_triton() -> None:
    """Makes each launch of a Triton kernel record the tensors that it may have written."""
    for name, owner, method in _LAUNCHERS:
        after_import(name, partial(_follow, owner, method, _launching))
    after_import("triton.runtime.jit", partial(_follow, "JITFunction", "run", _running))


def _follow(owner: str, method: str, followed: Callable[[Any], Any], module: ModuleType) -> None:
    kind: Any = getattr(module, owner)
    setattr(kind, method, followed(getattr(kind, method)))


def _running(run: Any) -> Any:
    """Returns ``JITFunction.run``, which names the launch to come."""

    def followed(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        found = noting()
        if found is None or warmup:
            return run(self, *args, grid=grid, warmup=warmup, **kwargs)
        with found.expecting(_launch(self, args, grid, kwargs)):
            return run(self, *args, grid=grid, warmup=warmup, **kwargs)

    return followed


def _launch(
    function: Any, args: tuple[Any, ...], grid: Any, kwargs: dict[str, Any]
) -> Expected | None:
    """Returns a launch and its tensors; None if the interpreter does not take such arguments."""
    if getattr(function, "is_gluon", lambda: False)():
        return None
    named = {name: value for name, value in kwargs.items() if name in function.arg_names}
    try:
        given = inspect.getcallargs(function.fn, *args, **named)
    except TypeError:
        return None  # Triton will say so
    tensors = {name: arg for name, arg in given.items() if type(arg) in _TENSORS}
    others = {name: arg for name, arg in given.items() if name not in tensors}
    if not all(map(_is_plain, others.values())):
        return None
    sizes = tuple(grid(given) if callable(grid) else grid)
    return Launch(function, sizes, others, (*tensors,)), [*tensors.values()]


def _is_plain(arg: Any) -> bool:
    if isinstance(arg, tuple):
        return all(map(_is_plain, arg))
    return isinstance(arg, _PLAIN) or type(arg).__module__ in (
        "triton.language.core",
        "triton.runtime.jit",
    )


def _launching(launch: Any) -> Any:
    """Returns a launcher that records what the kernel writes."""

    def followed(self: Any, *args: Any, **kwargs: Any) -> Any:
        found = noting()
        if found is None:
            return launch(self, *args, **kwargs)
        found.find_foreign_launches()
        with found.launching() as noted:
            result = launch(self, *args, **kwargs)
        if not noted:
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
