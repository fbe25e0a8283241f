"""Notes the launches of Triton kernels that are written by hand.

What other kernels of Triton write is not known: those of compiled code, and those of Gluon.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from ..import_watch import after_import
from .noting import Noting
from .triton_arguments import held_tensors, large_numbers, makes_pointers, understood

#: The modules, classes and methods that launch a compiled kernel. PyTorch's class launches the
#: kernels of compiled code; its name is another one since 2.11.
_LAUNCHERS = (
    ("triton.backends.nvidia.driver", "CudaLauncher", "__call__"),
    ("torch._inductor.runtime.static_cuda_launcher", "StaticallyLaunchedCudaKernel", "run"),
    ("torch._inductor.runtime.static_triton_launcher", "StaticallyLaunchedTritonKernel", "run"),
)
_WROTE = "a Triton kernel wrote it"
_ADDRESSES = "a Triton kernel ran that makes pointers of numbers, and nobody knows what it wrote"


def follow_triton(noting: Noting) -> None:
    """Makes each launch of a Triton kernel record the tensors that it may have written."""
    launching, running, trying = (partial(one, noting) for one in (_launching, _running, _trying))
    for name, owner, method in _LAUNCHERS:
        after_import(name, partial(_follow, owner, method, launching))
    after_import("triton.runtime.jit", partial(_follow, "JITFunction", "run", running))
    after_import("triton.runtime.autotuner", partial(_follow, "Autotuner", "_bench", trying))
    tuner = partial(_follow, "CachingAutotuner", "_build_fast_launcher", _without_fast_launcher)
    after_import("torch._inductor.runtime.triton_heuristics", tuner)


def _follow(owner: str, method: str, followed: Callable[[Any], Any], module: ModuleType) -> None:
    kind: Any = getattr(module, owner, None)
    if hasattr(kind, method):  # else this version of Triton or PyTorch has no such way to launch
        setattr(kind, method, followed(getattr(kind, method)))


def _running(noting: Noting, run: Any) -> Any:
    """Returns ``JITFunction.run``, which names the launch to come."""

    def followed(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return run(self, *args, grid=grid, warmup=warmup, **kwargs)
        numbers = large_numbers((*args, *kwargs.values()))
        inside = any(noting.storages.slot_at(number) is not None for number in numbers)
        addresses = inside or makes_pointers(self)
        expected = None if addresses else understood(self, args, kwargs)
        with noting.expecting(expected):
            result = run(self, *args, grid=grid, warmup=warmup, **kwargs)
        if addresses:
            noting.lost_all(_ADDRESSES)
        return result

    return followed


def _trying(noting: Noting, bench: Any) -> Any:
    """Returns ``Autotuner._bench``, whose launches leave no values.

    A kernel under ``autotune`` writes the same each time, or names what has to be reset.
    """

    def followed(self: Any, *args: Any, **kwargs: Any) -> Any:
        with noting.trying():
            return bench(self, *args, **kwargs)

    return followed


def _without_fast_launcher(build: Any) -> Any:
    """Returns a method that builds nothing, so that each launch passes Python.

    From its second launch on, a kernel of compiled code would be launched by C++ code, which nobody
    can follow: all values would be lost. The launchers ask for the same memory.
    """

    def built(self: Any, launcher: Any) -> None:
        return None

    return built


def _launching(noting: Noting, launch: Any) -> Any:
    """Returns a launcher that records what the kernel writes."""

    def followed(self: Any, *args: Any, **kwargs: Any) -> Any:
        noting.find_foreign_launches()
        with noting.launching(args[:3]) as noted:
            result = launch(self, *args, **kwargs)
        if not noted:
            tensors = held_tensors(_may_be_written(self, args))
            noting.lost([tensor for tensor in tensors or () if tensor.is_cuda], _WROTE)
            if tensors is None:
                noting.lost_all(_ADDRESSES)
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
