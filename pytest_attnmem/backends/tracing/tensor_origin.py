"""The place in a program that called an operator: its line, its module and its role."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import partial
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch.autograd.graph import _engine_run_backward
from torch.nn import Module, Parameter

from ...measurement.held import BACKWARD
from .module_paths import ModulePaths
from .node_modules import NodeModules, in_backward

PARAMETER, GRADIENT, OPTIMIZER = "parameter", "gradient", "optimizer"

_TORCH = os.path.dirname(torch.__file__) + os.sep
_TRITON = os.path.join(os.path.dirname(_TORCH[:-1]), "triton") + os.sep
_OPTIMIZERS = os.path.join(_TORCH, "optim") + os.sep
_CHECKPOINT = os.path.join(_TORCH, "utils", "checkpoint.py")
#: The function there that runs a forward pass again. Its variables hold what it runs until it ends.
_AGAIN = "recompute_fn"
_HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
#: What calls a command of ours, such as its script, is no program.
COMMANDS = os.path.join(_HERE, "cli") + os.sep
#: Code of this package that is the program under measurement, not its observer.
_KERNELS = os.path.join(_HERE, "kernels") + os.sep

#: Each call of a module goes through this function. Only the variables of its frames are read:
#: reading a frame's variables keeps them alive until it returns, and this frame does so anyway.
_CALL: CodeType = Module._wrapped_call_impl.__code__
#: The frames around this one are of code that started a backward pass, not of its operators.
_ENGINE: CodeType = _engine_run_backward.__code__


class Origin(NamedTuple):
    """The place that called an operator."""

    where: str = ""
    """``attn.py:31``; empty where no line of the program called it."""
    function: str = ""
    module: str = ""
    """``blocks.2.attention``; empty outside modules, and in the outermost one."""
    role: str = ""
    """``optimizer`` where an optimizer called it, ``backward`` where the backward pass of the
    module did; else empty."""


class Origins:
    """Finds origins, and remembers the paths of modules."""

    def __init__(self) -> None:
        self._paths = ModulePaths()
        self._nodes = NodeModules()

    def note(self, frame: FrameType | None) -> None:
        """Notes the node of autograd's graph for the operator that the frame runs."""
        self._nodes.note(lambda: self._module(frame) or "")

    def of(self, frame: FrameType | None) -> Origin:
        """Returns the origin of the operator that the frame runs."""
        where = function = role = ""
        module = self._module(frame)
        while frame is not None and not where:
            code = frame.f_code
            if code.co_filename.startswith(COMMANDS):
                break
            if code is not _CALL:
                if code.co_filename.startswith(_OPTIMIZERS):
                    role = OPTIMIZER
                where, function = user_frame([(code.co_filename, frame.f_lineno, code.co_name)])
            frame = frame.f_back
        if module == "" and not role and in_backward():
            module = self._nodes.running()
            role = BACKWARD if module else ""
        return Origin(where, function, module or "", role)

    def _module(self, frame: FrameType | None) -> str | None:
        """Returns the path of the module that runs an operator.

        Empty if none does: the operator is one of the program or of autograd. None in the forward
        pass that a checkpoint runs again without its module, unless what it runs is a method of it.
        """
        inner: Module | None = None
        outer: Module | None = None
        again = False
        while frame is not None and frame.f_code is not _ENGINE:
            if frame.f_code is _CALL:
                outer = frame.f_locals["self"]
                inner = inner or outer
            elif frame.f_code.co_filename == _CHECKPOINT:
                again = True
                if frame.f_code.co_name == _AGAIN:
                    outer = _module_of(frame.f_locals.get("fn")) or outer
                    inner = inner or outer
            frame = frame.f_back
        if inner is not None and outer is not None:
            return self._paths.of(inner, outer)
        return None if again else ""


def _module_of(function: Any) -> Module | None:
    """Returns the module whose method a function is, such as ``partial(Layer.forward, layer)``."""
    while isinstance(function, partial):
        if function.args and isinstance(function.args[0], Module):
            return function.args[0]
        function = function.func
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, Module) else None


def user_frame(frames: Iterable[tuple[str, int, str]]) -> tuple[str, str]:
    """Returns the first frame outside torch, Triton and our observers; empty if there is none.

    ``frames`` are file, line and function, the innermost first.
    """
    for path, line, function in frames:
        if path.startswith(COMMANDS):
            break
        observer = path.startswith(_HERE) and not path.startswith(_KERNELS)
        if not (observer or path.startswith((_TORCH, _TRITON, "<"))):
            return f"{os.path.basename(path)}:{line}", function
    return "", ""


def is_parameter(tensor: Any) -> bool:
    """Returns whether a tensor is a parameter of a module."""
    return isinstance(tensor, Parameter)


def is_gradient() -> bool:
    """Returns whether autograd is about to store the gradient of a parameter.

    Each operator that runs then makes ``.grad`` from its input, or adds to it.
    """
    if not in_backward():
        return False
    node: Any = torch._C._current_autograd_node()
    return type(node).__name__ == "AccumulateGrad" and is_parameter(node.variable)
