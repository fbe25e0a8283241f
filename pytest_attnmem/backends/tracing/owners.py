"""The objects that a person knows by a name: modules, classes, functions, instances, errors.

The attributes of any object are read without running code of its program.
"""

from __future__ import annotations

import functools
import linecache
import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextvars import Context
from types import (
    AsyncGeneratorType,
    CellType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    ModuleType,
    TracebackType,
)
from typing import Any, Final, NamedTuple

import torch
from torch.autograd.function import BackwardCFunction

from ...measurement import project
from ...measurement.held import Returned
from .tensor_origin import is_observer


def is_namespace(thing: Any, held: Any) -> bool:
    """Returns True for the dict that holds the attributes of an object."""
    if type(held) is not dict:
        return False
    if issubclass(type(thing), type):
        return True
    if type(thing) is FunctionType and thing.__kwdefaults__ is held:
        return True
    return namespace_of(thing) is held


def namespace_of(thing: Any) -> Any:
    """Returns the dict of an object's attributes; no code of a program runs."""
    if is_thread_local(thing):
        return threading.local.__getattribute__(thing, "__dict__")
    for kind in type(thing).__mro__:
        descriptor = kind.__dict__.get("__dict__")
        if isinstance(descriptor, (GetSetDescriptorType, MemberDescriptorType)):
            return descriptor.__get__(thing)
    return None


def is_thread_local(thing: Any) -> bool:
    """Returns True for an object with attributes of each thread, and without an initializer.

    An initializer would run where this thread has used none of the attributes.
    """
    kind = type(thing)
    return issubclass(kind, threading.local) and kind.__init__ is threading.local.__init__


def attributes(thing: Any, held: Any) -> Iterator[str]:
    """Yields the names of the attributes of ``thing`` that are ``held``."""
    for name, value in (namespace_of(thing) or {}).items():
        if value is held:
            yield str(name)
    for kind in type(thing).__mro__:
        for name, slot in kind.__dict__.items():
            if isinstance(slot, MemberDescriptorType):
                try:
                    value = slot.__get__(thing)
                except AttributeError:
                    continue
                if value is held:
                    yield name


#: The ranks of owners: the best is one that a person finds by its name alone.
NAMED, INSTANCE, MODULE, LOCAL, LIBRARY, ALONE = range(6)
#: The attribute that has the code of an object that runs, or can run.
_CODE: Final = MappingProxyType(
    {
        FunctionType: "__code__",
        FrameType: "f_code",
        GeneratorType: "gi_code",
        CoroutineType: "cr_code",
        AsyncGeneratorType: "ag_code",
    }
)
SUSPENDED: Final = (GeneratorType, CoroutineType, AsyncGeneratorType)
_DEFINITION: Final = re.compile(r"\s*(async\s+)?def\s|.*\blambda\b")
#: The most lines of decorators that are skipped.
_DECORATORS: Final = 20
_CONTAINERS: Final = (dict, list, tuple, set, frozenset, deque)
_CACHE: Final = functools._lru_cache_wrapper
_PACKAGE: Final = __name__.partition(".")[0] + "."
_KERNELS: Final = _PACKAGE + "kernels."
SAVED_BY: Final = "saved by {}"


class Owner(NamedTuple):
    """An object that a person knows by a name: the beginning of a path."""

    rank: int
    start: str = ""
    """The beginning of the path: ``Session``."""
    shown: str = "{}"
    """The text around the path: ``saved by {}``."""


class Edge(NamedTuple):
    """A way from a tensor to another that only C++ knows."""

    text: str
    """The path with a place for what comes before: ``{}.grad``."""
    alone: str
    """The text where nothing is known to come before."""


def owner(thing: Any, child: Any) -> Owner | None:
    """Returns the name of an object that holds ``child``; None for one without a name."""
    kind = type(thing)
    if kind is Edge:
        return Owner(ALONE, shown=thing.alone)
    if kind is dict:
        return _namespace(thing)
    if issubclass(kind, ModuleType):
        return Owner(NAMED, thing.__name__)
    if issubclass(kind, type):
        return Owner(NAMED, _short(thing))
    if kind is Context:
        return Owner(NAMED)
    if kind is Returned:
        return Owner(NAMED, "Measurement")
    if kind is FunctionType:
        return _function(thing, child)
    if kind is _CACHE:
        name = f"{thing.__module__}.{thing.__qualname__}".replace(".<locals>", "")
        return Owner(NAMED, shown=f"lru_cache of {name}")
    if kind in SUSPENDED:
        return Owner(NAMED, shown=f"the suspended {thing.__name__} at {_line(thing)} ({{}})")
    if issubclass(kind, BaseException) and type(child) is TracebackType:
        return Owner(NAMED, shown=f"frame of the caught {kind.__name__} at {{where}} ({{}})")
    if kind is FrameType:
        return Owner(LIBRARY, shown=f"frame of {thing.f_code.co_name} at {{where}} ({{}})")
    if issubclass(kind, BackwardCFunction):
        name = kind.__name__.removesuffix("Backward")
        return Owner(NAMED, f"{name}.ctx", SAVED_BY)
    return _instance(thing, kind)


def _namespace(thing: dict[Any, Any]) -> Owner | None:
    """Returns the module whose variables are in a dict."""
    name = thing.get("__name__")
    if isinstance(name, str) and "__builtins__" in thing:
        return Owner(NAMED, name)
    return None


def _short(kind: type) -> str:
    """Returns the name of a class without the function that it is in."""
    return kind.__qualname__.rpartition("<locals>.")[2]


def _instance(thing: Any, kind: type) -> Owner | None:
    """Returns the name of an instance: its class. Lists, dicts and tensors have none."""
    module = str(kind.__module__)
    if module == "builtins" or issubclass(kind, torch.Tensor):
        return None
    if issubclass(kind, _CONTAINERS) and (is_library(kind) or issubclass(kind, tuple)):
        return None
    if module.startswith("_pytest."):
        name = vars(thing).get("argname") if kind.__name__ == "FixtureDef" else None
        return Owner(NAMED, name, "fixture {}") if name else Owner(LIBRARY, kind.__name__)
    if namespace_of(thing) is None and not any("__slots__" in one.__dict__ for one in kind.__mro__):
        return None
    if issubclass(kind, torch.nn.Module):
        return Owner(MODULE, _short(kind))
    return Owner(LIBRARY if is_library(kind) else INSTANCE, _short(kind))


def is_library(kind: type) -> bool:
    """Returns True for a class of Python's library, or of an installed package."""
    module = str(kind.__module__)
    file = getattr(sys.modules.get(module), "__file__", None)
    return module != "__main__" if not file else project.standing(str(file)) == project.LIBRARY


def _function(thing: FunctionType, child: Any) -> Owner:
    name, line = thing.__qualname__.rpartition("<locals>.")[2], _line(thing)
    if child is thing.__closure__ or type(child) is CellType:
        return Owner(NAMED, shown=f"the closure of {name} at {line} ({{}})")
    if child is thing.__defaults__ or child is thing.__kwdefaults__:
        return Owner(NAMED, shown=f"a default of {name} at {line} ({{}})")
    return Owner(NAMED, f"{thing.__module__}.{thing.__qualname__}".replace(".<locals>", ""))


def code_of(thing: Any) -> CodeType | None:
    """Returns the code of a function, a generator or a frame; None for anything else."""
    name = _CODE.get(type(thing))
    code: CodeType | None = getattr(thing, name) if name else None
    return code


def is_ours(thing: Any) -> bool:
    """Returns True for an object, a function or a frame of this package, except its kernels."""
    code = code_of(thing)
    if code is not None:
        return is_observer(code.co_filename)
    kind = type(thing)
    module = str(kind.__module__) + "."
    ours = module.startswith(_PACKAGE) and not module.startswith(_KERNELS)
    return ours and kind is not Returned and not issubclass(kind, torch.Tensor)


def _line(thing: Any) -> str:
    """Returns the line of a function's ``def``, which comes after its decorators."""
    code = code_of(thing)
    if code is None:
        return ""
    first = code.co_firstlineno
    lines = range(first, first + _DECORATORS)
    starts = (n for n in lines if _DEFINITION.match(linecache.getline(code.co_filename, n)))
    return f"{os.path.basename(code.co_filename)}:{next(starts, first)}"
