"""The place in a program that called an operator: its line, its module and its role."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.nn import Module, Parameter

PARAMETER, GRADIENT, OPTIMIZER = "parameter", "gradient", "optimizer"

_TORCH = os.path.dirname(torch.__file__) + os.sep
_OPTIMIZERS = os.path.join(_TORCH, "optim") + os.sep
_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
#: Code of this package that is the program under measurement, not its observer.
_KERNELS = os.path.join(_HERE, "kernels") + os.sep

#: Each call of a module goes through this function. Only the variables of its frames are read:
#: reading a frame's variables keeps them alive until it returns, and this frame does so anyway.
_CALL: CodeType = Module._wrapped_call_impl.__code__


class Origin(NamedTuple):
    """The place that called an operator."""

    where: str = ""
    """``attn.py:31``; empty where no line of the program called it."""
    function: str = ""
    module: str = ""
    """``blocks.2.attention``; empty outside modules, and in the outermost one."""
    role: str = ""
    """``optimizer`` where an optimizer called it, else empty."""


class Origins:
    """Finds origins, and remembers the names of modules."""

    def __init__(self) -> None:
        self._names: weakref.WeakKeyDictionary[Module, dict[int, str]] = weakref.WeakKeyDictionary()

    def of(self, frame: FrameType | None) -> Origin:
        """Returns the origin of the operator that the frame runs."""
        where = function = role = ""
        inner: Module | None = None
        outer: Module | None = None
        while frame is not None:
            code = frame.f_code
            if code is _CALL:
                outer = frame.f_locals["self"]
                inner = inner or outer
            elif not where:
                if code.co_filename.startswith(_OPTIMIZERS):
                    role = OPTIMIZER
                where, function = user_frame([(code.co_filename, frame.f_lineno, code.co_name)])
            frame = frame.f_back
        name = self._name(inner, outer) if inner is not None and outer is not None else ""
        return Origin(where, function, name, role)

    def _name(self, inner: Module, outer: Module) -> str:
        names = self._names.get(outer)
        if names is None or id(inner) not in names:
            found = {id(module): name for name, module in outer.named_modules()}
            names = self._names[outer] = found
        return names.get(id(inner), "")


def user_frame(frames: Iterable[tuple[str, int, str]]) -> tuple[str, str]:
    """Returns the first frame outside torch and this package's observers; empty if there is none.

    ``frames`` are file, line and function, the innermost first.
    """
    for path, line, function in frames:
        observer = path.startswith(_HERE) and not path.startswith(_KERNELS)
        if not (observer or path.startswith((_TORCH, "<"))):
            return f"{os.path.basename(path)}:{line}", function
    return "", ""


def is_parameter(tensor: Any) -> bool:
    """Returns whether a tensor is a parameter of a module."""
    return isinstance(tensor, Parameter)


def is_gradient() -> bool:
    """Returns whether autograd is about to store the gradient of a parameter.

    Each operator that runs then makes ``.grad`` from its input, or adds to it.
    """
    if torch._C._current_graph_task_id() == -1:
        return False
    node: Any = torch._C._current_autograd_node()
    return type(node).__name__ == "AccumulateGrad" and is_parameter(node.variable)
