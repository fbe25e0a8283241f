"""What old code imports and is not here: names that are gone, and stand-ins for packages.

A name that PyTorch, Python or NumPy removed leads to what replaced it. A stand-in has every name
and computes nothing: it is for packages that a library imports and the measured code never calls.
"""

from __future__ import annotations

import collections.abc
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any, Final

#: Modules that are gone, with what they had.
_MODULES: Final[Mapping[str, Mapping[str, object]]] = MappingProxyType(
    {
        "torch._six": MappingProxyType(
            {
                "container_abcs": collections.abc,
                "string_classes": (str, bytes),
                "int_classes": int,
                "inf": math.inf,
                "nan": math.nan,
            }
        )
    }
)
#: Names that are gone from modules that stayed: where they are now.
_NAMES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "collections": MappingProxyType(dict.fromkeys(collections.abc.__all__, "collections.abc")),
        "numpy": MappingProxyType(
            dict.fromkeys(("int", "float", "bool", "object", "complex", "str"), "builtins")
        ),
    }
)
#: Python's own frames of an import.
_IMPORT: Final = "<frozen importlib._bootstrap>"


class Substitutes(MetaPathFinder, Loader):
    """Finds modules that no other finder finds; ``used`` names what was asked for."""

    def __init__(self, stand_ins: Sequence[str] = ()) -> None:
        self._stand_ins = frozenset(stand_ins)
        self.used: dict[str, str] = {}
        """What was used, and for what: ``torch._six`` ``removed``, ``torchvision`` ``stand-in``."""

    def install(self) -> None:
        """Has this process find the modules and names."""
        sys.meta_path.append(self)  # the last: what is installed comes first
        for module, names in _NAMES.items():
            self._give(module, names)

    def _give(self, module: str, names: Mapping[str, str]) -> None:
        try:
            owner = import_module(module)
        except ImportError:
            return
        own: Callable[[str], Any] | None = owner.__dict__.get("__getattr__")

        def found(name: str) -> Any:
            if name in names:
                self.used[f"{module}.{name}"] = "removed"
                return getattr(import_module(names[name]), name)
            if own is not None:
                return own(name)
            raise AttributeError(f"module {module!r} has no attribute {name!r}")

        owner.__dict__["__getattr__"] = found

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the spec of a module that is gone, or of a stand-in."""
        package = name.partition(".")[0]
        if name in _MODULES:
            self.used[name] = "removed"
        elif package in self._stand_ins:
            self.used[package] = "stand-in"
        else:
            return None
        return ModuleSpec(name, self, is_package=name not in _MODULES)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Returns the module, empty."""
        return ModuleType(spec.name) if spec.name in _MODULES else _StandInModule(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Fills the module that is gone; a stand-in has all names as it is."""
        module.__dict__.update(_MODULES.get(module.__name__, {}))


class _StandInModule(ModuleType):
    """A module that has every name."""

    __version__ = "0.0.0"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(f"{self.__name__}.{name}")


class _StandIn(type):
    """The type of stand-ins: classes, so that a library may inherit from them."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(f"{cls.__qualname__}.{name}")

    def __call__(cls, *arguments: Any, **keywords: Any) -> Any:
        """Returns an object while a module is imported; later it would be a wrong result.

        As a decorator it returns what it decorates.
        """
        if not _is_importing():
            raise NotImplementedError(f"{cls.__qualname__} is a stand-in, which computes nothing")
        if len(arguments) == 1 and not keywords and callable(arguments[0]):
            return arguments[0]
        return _stand_in(cls.__qualname__)

    def __iter__(cls) -> Any:
        return iter(())

    def __getitem__(cls, key: object) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    __ror__ = __or__


def _stand_in(name: str) -> Any:
    return _StandIn(name, (), {"__qualname__": name, "__init__": _any_arguments})


def _any_arguments(self: object, *arguments: Any, **keywords: Any) -> None:
    """Accepts what a subclass passes on."""


def _is_importing() -> bool:
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == _IMPORT:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False
