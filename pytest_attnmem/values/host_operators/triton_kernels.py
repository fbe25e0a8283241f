"""Triton kernels that are written by hand, run by Triton's own interpreter.

The interpreter (triton/runtime/interpreter.py, ``TRITON_INTERPRET=1``) runs a kernel's Python code
with NumPy, one program of the grid after the other. Products keep their inputs' full precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

from ...errors import CannotCompute

if not hasattr(torch.ops.attnmem, "triton_kernel"):  # torch keeps it if this module is reloaded
    # ``launch`` is a Launch; schemas have no type for it, and no dispatcher sees it.
    torch.library.define("attnmem::triton_kernel", "(Tensor(a!)[] tensors, int launch) -> ()")

#: The operator that stands for a launch on a tape: it may change each of its tensors.
KERNEL: Final = torch.ops.attnmem.triton_kernel.default


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel."""

    function: Any
    """The ``JITFunction``."""
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    """The arguments without tensors, by name."""
    tensors: tuple[str, ...]
    """The names of the arguments that are tensors."""


def triton_kernel(call: SimpleNamespace) -> None:
    """Runs a launch on tensors of the CPU, which it changes.

    Raises:
        CannotCompute: the interpreter does not know an operation of the kernel.
    """
    launch: Launch = call.launch
    interpreter = import_module("triton.runtime.interpreter")
    given = {**launch.arguments, **dict(zip(launch.tensors, call.tensors, strict=True))}
    kernel = interpreter.InterpretedFunction(launch.function.fn)
    try:
        with _calls_interpreted(interpreter):
            kernel.run(grid=launch.grid, warmup=False, **given)
    except Exception as error:  # whatever a kernel's code raises
        lines = str(error).strip().splitlines() or [type(error).__name__]
        name = launch.function.fn.__name__
        raise CannotCompute(f"Triton's interpreter cannot run {name}: {lines[0]}") from error


@contextmanager
def _calls_interpreted(interpreter: Any) -> Iterator[None]:
    """Interprets the functions that a kernel calls, which were compiled functions at its import.

    The interpreter's own calls leave Triton's language replaced, and no kernel compiles after that.
    """
    kind: Any = import_module("triton.runtime.jit").JITFunction
    original = kind.__call__

    def call(function: Any, *args: Any, **kwargs: Any) -> Any:
        replaced = interpreter._patch_lang(function.fn)
        try:
            return interpreter.InterpretedFunction(function.fn).rewrite()(*args, **kwargs)
        finally:
            replaced.restore()

    kind.__call__ = call
    try:
        yield
    finally:
        kind.__call__ = original


OPERATORS: Final = MappingProxyType({"attnmem.triton_kernel.default": triton_kernel})
