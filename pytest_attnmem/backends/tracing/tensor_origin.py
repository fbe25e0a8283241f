"""The place in a program that called an operator: its line, its module and its role."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import takewhile
from types import CodeType, FrameType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch.nn import Module, Parameter

from ...measurement.held import BACKWARD
from ...measurement.project import PROJECT, in_library, standing
from ..autograd_engine import RUNS_BACKWARD, in_backward, next_number, running_node


class NodeModules:
    """The path of the module whose forward made each node, by the node's sequence number.

    Threads count their nodes separately: where two threads made a node of the same number in
    different modules, its module is not known.
    """

    def __init__(self) -> None:
        self._modules: dict[int, str] = {}
        self._latest = -1
        self._path = ""

    def note(self, module: Callable[[], str]) -> None:
        """Notes the node that autograd made for the running operator, if it made one.

        Autograd numbers a node before it runs the operator (``torch/csrc/autograd/function.h``).
        Nodes before it that no operator showed, such as those of views, are of the module that
        encloses this one and the last.
        """
        count = next_number()
        if count == self._latest:
            return
        path = module()
        if 0 <= self._latest < count - 1:
            enclosing = _enclosing(self._path, path)
            for number in range(self._latest, count - 1):
                self._modules.setdefault(number, enclosing)
        self._latest, self._path = count, path
        if self._modules.setdefault(count - 1, path) != path:
            self._modules[count - 1] = ""

    def running(self) -> str:
        """Returns the module behind the node that runs backward; empty if none is known."""
        node = running_node()
        return self._modules.get(node._sequence_nr(), "") if node is not None else ""


def _enclosing(one: str, other: str) -> str:
    """Returns the path of the innermost module that contains both."""
    parts = zip(one.split("."), other.split("."), strict=False)
    return ".".join(part for part, _ in takewhile(lambda pair: pair[0] == pair[1], parts))


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

#: The kinds of code that are no program's; a program's code has the standing of its file, >= 0.
_FOREIGN, _OPTIMIZER, _COMMAND = -1, -2, -3

#: The codes that called an operator and the places in them, the innermost first.
Calls = Sequence[tuple[CodeType, int]]


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
    by: str = ""
    """The line of a library that was called there: ``einops/_backends.py:291``."""


class CallFinder:
    """Finds the lines of a program that called an operator, and remembers what each code is."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[CodeType, int]] = {}  # by id: the hash is slow

    def calls_of(self, frame: FrameType | None) -> tuple[Calls, bool]:
        """Returns the calls outside torch and this package, up to the innermost of the project.

        The second value is True if torch's code of an optimizer called the operator itself: an
        optimizer of the program, or of a library, has lines of its own.
        """
        known, calls, by_optimizer = self._known, list[tuple[CodeType, int]](), False
        while frame is not None:
            code = frame.f_code
            found = known.get(id(code))
            if found is None:
                found = known[id(code)] = code, _what_is(code.co_filename)
            what = found[1]
            if what >= 0:
                calls.append((code, frame.f_lasti))
                if what == PROJECT:
                    break
            elif what == _COMMAND:
                break
            elif what == _OPTIMIZER:
                by_optimizer = by_optimizer or not calls
            frame = frame.f_back
        return calls, by_optimizer


class Origins:
    """Finds origins, and remembers the paths of modules."""

    def __init__(self) -> None:
        self._calls = CallFinder()
        self._lines: dict[tuple[tuple[int, int], ...], UserFrame] = {}
        self._paths = ModulePaths()
        self._nodes = NodeModules()

    def note(self, frame: FrameType | None) -> None:
        """Notes the node of autograd's graph for the operator that the frame runs."""
        self._nodes.note(lambda: self._module(frame) or "")

    def of(self, frame: FrameType | None) -> Origin:
        """Returns the origin of the operator that the frame runs."""
        module = self._module(frame)
        calls, by_optimizer = self._calls.calls_of(frame)
        key = tuple([(id(code), at) for code, at in calls])
        found = self._lines.get(key)
        if found is None:
            found = self._lines[key] = line_of(calls)
        role = OPTIMIZER if by_optimizer else ""
        if module == "" and not role and in_backward():
            module = self._nodes.running()
            role = BACKWARD if module else ""
        return Origin(found.where, found.function, module or "", role, found.by)

    def _module(self, frame: FrameType | None) -> str | None:
        """Returns the path of the module that runs an operator.

        Empty if none does: the operator is one of the program or of autograd. None in the forward
        pass that a checkpoint runs again without its module, unless what it runs is a method of it.
        """
        inner: Module | None = None
        outer: Module | None = None
        again = False
        # The frames around the engine are of code that started a backward pass.
        while frame is not None and frame.f_code is not RUNS_BACKWARD:
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
            return self._paths.path_of(inner, outer)
        return None if again else ""


def _what_is(path: str) -> int:
    if path.startswith(COMMANDS):
        return _COMMAND
    if path.startswith(_OPTIMIZERS):
        return _OPTIMIZER
    return _FOREIGN if is_foreign(path) else standing(path)


def _module_of(function: Any) -> Module | None:
    """Returns the module whose method a function is, such as ``partial(Layer.forward, layer)``."""
    while isinstance(function, partial):
        if function.args and isinstance(function.args[0], Module):
            return function.args[0]
        function = function.func
    owner = getattr(function, "__self__", None)
    return owner if isinstance(owner, Module) else None


class UserFrame(NamedTuple):
    """A line of a program."""

    where: str = ""
    """``attn.py:31``; empty if no line of the program is known."""
    function: str = ""
    by: str = ""
    """The line of a library that the program called there: ``einops/_backends.py:291``."""


def user_frame(frames: Iterable[tuple[str, int, str]]) -> UserFrame:
    """Returns the innermost frame of the project, else of no library, else of a library.

    ``frames`` are file, line and function, the innermost first. Those of torch, Triton and our
    observers are of no program.
    """
    found, best, by = UserFrame(), -1, ""
    for path, line, function in frames:
        if path.startswith(COMMANDS):
            break
        if is_foreign(path):
            continue
        rank = standing(path)
        if rank > best:
            found, best = UserFrame(f"{os.path.basename(path)}:{line}", function, by), rank
        if best == PROJECT:
            break
        by = by or f"{in_library(path)}:{line}"
    return found


def line_of(calls: Calls) -> UserFrame:
    """Returns the line that a report shows of the calls of an operator."""
    return user_frame(
        (code.co_filename, _line_number(code, at), code.co_name) for code, at in calls
    )


def _line_number(code: CodeType, instruction: int) -> int:
    """Returns the line of an instruction, as ``frame.f_lineno`` does while the frame lives."""
    for start, end, line in code.co_lines():
        if start <= instruction < end and line is not None:
            return line
    return code.co_firstlineno


def is_observer(path: str) -> bool:
    """Returns True for a file of this package that is no part of a program under measurement."""
    return path.startswith(_HERE) and not path.startswith(_KERNELS)


def is_foreign(path: str) -> bool:
    """Returns True for a file of torch, of Triton or of our observers."""
    return is_observer(path) or path.startswith((_TORCH, _TRITON, "<"))


def is_parameter(tensor: Any) -> bool:
    """Returns whether a tensor is a parameter of a module."""
    return isinstance(tensor, Parameter)


def is_gradient() -> bool:
    """Returns whether autograd is about to store the gradient of a parameter.

    Each operator that runs then makes ``.grad`` from its input, or adds to it.
    """
    if not in_backward():
        return False
    node = running_node()
    return type(node).__name__ == "AccumulateGrad" and is_parameter(node.variable)


#: Wrappers that keep the wrapped module under a name of their own, which no user wrote:
#: torch.compile, checkpoint_wrapper and FullyShardedDataParallel.
_WRAPPED = frozenset({"_orig_mod", "_checkpoint_wrapped_module", "_fsdp_wrapped_module"})


class ModulePaths:
    """Finds the paths of modules, and remembers them.

    A layer that runs alone after its model has run, as a checkpointed layer does in the backward
    pass, keeps the path that the model gives it.
    """

    def __init__(self) -> None:
        self._roots: WeakKeyDictionary[Module, WeakKeyDictionary[Module, str]] = WeakKeyDictionary()

    def path_of(self, inner: Module, outer: Module) -> str:
        """Returns the path of ``inner``, ``blocks.2.attention``; empty for the outermost module.

        ``outer`` is the outermost module that is running.
        """
        around = [known for known, names in self._roots.items() if outer in names]
        root = max(around, key=lambda known: len(self._roots[known][outer]), default=outer)
        names = self._roots.get(root)
        if names is None or inner not in names:
            names = self._roots[root] = WeakKeyDictionary(
                (module, _plain(path)) for path, module in root.named_modules()
            )
        return names.get(inner, "")


def _plain(path: str) -> str:
    return ".".join(name for name in path.split(".") if name not in _WRAPPED)
