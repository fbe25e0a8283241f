"""Code that is compiled for a device: here it runs eagerly, and the window is not enforced."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from typing import Any, Final, NoReturn

import torch
from torch._dynamo import eval_frame  # now: an import in a window leaves frames with tensors

from ...errors import CannotSimulate
from . import triton_driver
from .program_errors import at

#: The types whose calls run TorchScript's interpreter.
_SCRIPTS: Final = (torch._C.ScriptFunction, torch._C.ScriptMethod)
_COMPILED: Final = "compiled code cannot be simulated"
_CALLED: Final = re.compile(r"aten::(\w+)\(")


class CompiledCode:
    """What one window compiles, captures or launches."""

    def __init__(
        self, refused: Callable[[str], CannotSimulate], names_device: Callable[[], bool]
    ) -> None:
        self._refused = refused
        self._names_device = names_device
        self._problem = ""
        self._called = weakref.WeakSet[Any]()
        """The scripts that were called: TorchScript fuses their kernels from then on."""
        triton_driver.follow()

    def clear(self) -> None:
        """Begins a window."""
        self._problem = ""

    @property
    def problem(self) -> str | None:
        """Returns why the numbers may be wrong."""
        return self._problem or None

    def patches(self) -> dict[tuple[Any, str], Any]:
        """Returns the patches by owner and name."""

        def compile(model: Any = None, **options: Any) -> Any:
            if not options.get("disable") and options.get("backend") != "eager":
                self._problem = _COMPILED
            return (lambda function: function) if model is None else model

        decide = eval_frame._callback_from_stance

        def eager(callback: Any) -> Any:
            if decide(callback) not in (None, False):
                self._problem = _COMPILED
            return None

        def graph(*_: Any, **__: Any) -> NoReturn:
            raise self._refused(f"a CUDA graph{at()} cannot be simulated")

        return {
            (torch, "compile"): compile,
            (eval_frame, "_callback_from_stance"): eager,
            (torch.cuda.CUDAGraph, "__new__"): graph,
            **triton_driver.patches(self._refused),
            **{(script, "__call__"): self._counted(script.__call__) for script in _SCRIPTS},
        }

    def _counted(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def __call__(script: Any, *args: Any, **kwargs: Any) -> Any:
            if script in self._called and _fuses(script, (*args, *kwargs.values())):
                self._problem = (
                    f"TorchScript fuses the kernels of a script that is called again{at()}, which"
                    " cannot be simulated; set PYTORCH_JIT=0, which runs scripts as Python, or use"
                    " backend='null' or 'cuda'"
                )
            self._called.add(script)
            out = original(script, *args, **kwargs)
            if isinstance(out, torch.Tensor) and out.is_cpu and not self._names_device():
                self._problem = (
                    f"TorchScript made a tensor on the host{at()}, in a program that names no"
                    " device; name the device in the script"
                )
            return out

        return __call__


def _fuses(script: Any, values: tuple[Any, ...]) -> bool:
    """Returns True for a call on the device of a script with several kernels of elements."""
    if not any(isinstance(value, torch.Tensor) and value.is_cuda for value in values):
        return False
    called = _CALLED.findall(str(script.inlined_graph))
    return torch._C._jit_texpr_fuser_enabled() and sum(map(_is_of_elements, called)) > 1


def _is_of_elements(name: str) -> bool:
    packet = getattr(torch.ops.aten, name)
    overloads = (getattr(packet, overload) for overload in packet.overloads())
    return any(torch.Tag.pointwise in overload.tags for overload in overloads)
