"""Whether the code of a test puts tensors on ``cuda``, read before the test runs.

A simulated program has its tensors on the device until it names one. If it names one late, it must
run again, and a second run sees what the first one left: files, counters, printed text. So its code
is read first, with the functions and classes beside it that it refers to. What a library names
says nothing: a test may not get there.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

import pytest

from ..errors import ProgramRefused
from .plan import values_of

_CUDA: Final = re.compile(r"cuda(:\d+)?")
#: Calls that take the name of a device and put no tensor there.
_SETTINGS: Final = re.compile(
    r"(torch\.)?(cuda|backends|amp)\..*|.*(autocast|GradScaler|skip|mark).*"
)
#: The most functions that are read for one test.
_MOST: Final = 100
_METHODS_BEFORE: Final = ("setUp", "setup_method", "asyncSetUp")
#: The definition of each function, which the tests of a parametrization share; None: nobody has it.
_Definitions = dict[CodeType, ast.FunctionDef | ast.AsyncFunctionDef | None]
_DEFINITIONS: Final = pytest.StashKey[_Definitions]()


def names_cuda(item: pytest.Item) -> bool:
    """Returns True if the test's code, or code beside it that it refers to, names ``cuda``.

    A name in a comparison, or in a setting such as ``torch.autocast("cuda")``, does not count.
    Returns False for code that cannot be read, such as an expression of hundreds of calls.
    """
    owner = getattr(item, "cls", None)
    own = vars(owner) if owner else {}
    try:
        function = inspect.unwrap(getattr(item, "obj", None) or (lambda: None))
        functions = [getattr(function, "__func__", function)]
        functions += [own[name] for name in _METHODS_BEFORE if name in own]
        return _names_cuda([one for one in functions if isinstance(one, FunctionType)], item)
    except (ProgramRefused, Exception):  # of objects that are looked at
        return False


def _names_cuda(functions: Sequence[FunctionType], item: pytest.Item) -> bool:
    """Returns True if one of the functions, or one that it refers to, names ``cuda``."""
    owner, folder = getattr(item, "cls", None), str(item.path.parent)
    definitions = item.config.stash.setdefault(_DEFINITIONS, {})
    seen: set[CodeType] = set()
    waiting = [(function, dict(values_of(item))) for function in reversed(functions)]
    while waiting and len(seen) < _MOST:
        function, arguments = waiting.pop()
        if function.__code__ in seen:
            continue
        seen.add(function.__code__)
        if function.__code__ not in definitions:
            definitions[function.__code__] = _parsed(function)
        tree = definitions[function.__code__]
        if tree is None:
            continue
        search = _Search({**_scope(function), **arguments, "self": owner}, folder)
        for statement in tree.body:
            search.visit(statement)
        if search.found:
            return True
        waiting += [(one, {}) for one in search.functions]
    return False


class _Search(ast.NodeVisitor):
    """Looks for ``cuda`` in the body of a function; ``scope`` has the values that names have."""

    def __init__(self, scope: Mapping[str, Any], folder: str) -> None:
        self.found = False
        self.functions: list[FunctionType] = []
        """The functions that it refers to, of files in the folder."""
        self._scope = scope
        self._folder = folder

    def visit_Compare(self, node: ast.Compare) -> None:
        """Reads the calls in a comparison: the name of a device there moves no tensor."""
        self._visit_calls(node)

    def _visit_calls(self, node: ast.AST) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                self.visit(child)
            else:
                self._visit_calls(child)

    def visit_Call(self, node: ast.Call) -> None:
        """Reads a call, unless it is a setting."""
        called = ast.unparse(node.func)
        if _SETTINGS.fullmatch(called):
            return
        if isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
            self.found |= called != "torch.cuda"
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Reads a string."""
        self.found |= isinstance(node.value, str) and bool(_CUDA.fullmatch(node.value))

    def visit_Name(self, node: ast.Name) -> None:
        """Reads a variable."""
        if isinstance(node.ctx, ast.Load) and node.id != "self":  # it has other tests too
            self._look_at(self._scope.get(node.id))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Reads an attribute of a module, of the test's class, or of an object of a fixture."""
        base = node.value
        owner = self._scope.get(base.id) if isinstance(base, ast.Name) else None
        if isinstance(owner, (ModuleType, type)):
            self._look_at(inspect.getattr_static(owner, node.attr, None))
        elif isinstance(base, ast.Name) and (base.id, node.attr) == ("attnmem", "device"):
            self.found |= _is_cuda(getattr(owner, "device", None))
        self.generic_visit(node)

    def _look_at(self, value: object) -> None:
        if _is_cuda(value):
            self.found = True
        elif isinstance(value, FunctionType) and self._is_near(value):
            self.functions.append(value)
        elif isinstance(value, type) and self._is_near(value):
            self.functions += [one for one in vars(value).values() if isinstance(one, FunctionType)]

    def _is_near(self, value: FunctionType | type) -> bool:
        """Returns True for a function or a class of a file in the folder."""
        file = getattr(sys.modules.get(value.__module__), "__file__", None)
        return bool(file and str(file).startswith(self._folder))


def _is_cuda(value: object) -> bool:
    """Returns True for the name of the device, or a ``torch.device``."""
    if type(value).__name__ == "device":
        value = getattr(value, "type", None)
    return isinstance(value, str) and bool(_CUDA.fullmatch(value))


def _scope(function: FunctionType) -> dict[str, Any]:
    """Returns the values of the names in a function: of its module, around it, and by default."""
    scope = dict(function.__globals__)
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=False)
    for name, cell in cells:
        try:
            scope[name] = cell.cell_contents
        except ValueError:  # not set yet
            continue
    for name, parameter in inspect.signature(function).parameters.items():
        scope[name] = None if parameter.default is parameter.empty else parameter.default
    return scope


def _parsed(function: FunctionType) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Returns the definition of a function; None if nobody has its text."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    definition = tree.body[0] if tree.body else None
    return definition if isinstance(definition, (ast.FunctionDef, ast.AsyncFunctionDef)) else None
