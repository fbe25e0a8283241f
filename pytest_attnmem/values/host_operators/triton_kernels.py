"""Triton kernels that are written by hand, run by Triton's own interpreter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

from ...errors import UnknownValue, first_line
from ..work import WorkLeft

if not hasattr(torch.ops.attnmem, "triton_kernel"):  # torch keeps it if this module is reloaded
    # ``launch`` is a Launch; schemas have no type for it, and no dispatcher sees it.
    torch.library.define("attnmem::triton_kernel", "(Tensor(a!)[] tensors, int launch) -> ()")

#: The operator that stands for a launch on a tape: it may change each of its tensors.
KERNEL: Final = torch.ops.attnmem.triton_kernel.default


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor among the arguments of a launch."""

    position: int
    """The position among the tensors of the launch."""
    wrap: Callable[[torch.Tensor], Any] = lambda tensor: tensor
    """Makes what the kernel takes of the tensor, as a descriptor."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch of a kernel."""

    function: Any
    """The ``JITFunction``."""
    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    """The arguments by name, a :class:`Held` in the place of each tensor."""
    left: WorkLeft
    """The work that the read of a value may still do."""


def triton_kernel(call: SimpleNamespace) -> None:
    """Runs a launch on tensors of the CPU, which it changes.

    Raises:
        UnknownValue: the interpreter cannot run the kernel.
    """
    from ..interpreted_triton import run_kernel

    launch: Launch = call.launch
    given = {name: _filled(arg, call.tensors) for name, arg in launch.arguments.items()}
    try:
        run_kernel(launch.function, launch.grid, given, call.tensors, launch.left)
    except Exception as error:  # whatever a kernel's code raises
        name, why = launch.function.fn.__name__, _reason(_first(error))
        raise UnknownValue(f"Triton's interpreter cannot run {name}: {why}") from error


def _filled(arg: Any, tensors: list[torch.Tensor]) -> Any:
    if isinstance(arg, tuple):
        make: Any = getattr(arg, "_make", tuple)  # it may be a named tuple
        return make(_filled(item, tensors) for item in arg)
    return arg.wrap(tensors[arg.position]) if isinstance(arg, Held) else arg


def _first(error: BaseException) -> BaseException:
    """Returns the error that the interpreter wraps once for each call."""
    while type(error).__name__ == "InterpreterError" and error.__cause__ is not None:
        error = error.__cause__
    return error


def _reason(error: BaseException) -> str:
    kind, line = type(error).__name__, first_line(error)
    plain = isinstance(error, (MemoryError, NotImplementedError)) or line == kind
    return line if plain else f"{kind} {line}"


OPERATORS: Final = MappingProxyType({"attnmem.triton_kernel.default": triton_kernel})
