"""Calls a function as soon as a module is imported, so that nothing imports it early."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any


def after_import(name: str, call: Callable[[], None]) -> Callable[[], None]:
    """Calls ``call`` once the module is imported: now, if it is. Returns a function that gives up.

    ``name`` is a top-level module.
    """
    if name in sys.modules:
        call()
        return lambda: None
    watch = _Watch(name, call)
    sys.meta_path.insert(0, watch)
    return watch.remove


class _Watch(MetaPathFinder):
    """A finder that leaves the search to the other finders, and hears of its result."""

    def __init__(self, name: str, call: Callable[[], None]) -> None:
        self._name = name
        self._call = call

    def remove(self) -> None:
        """Stops watching."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Returns the module's spec, whose loader calls the function at its end."""
        if fullname != self._name:
            return None
        self.remove()
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                self._call()

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
