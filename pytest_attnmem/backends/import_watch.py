"""Calls a function as soon as a module is imported, so that nothing imports it early."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


def after_import(name: str, call: Callable[[ModuleType], object]) -> Callable[[], None]:
    """Calls ``call`` with the module of that name once it is imported: now, if it is.

    Returns a function that gives up.
    """
    if name in sys.modules:
        call(sys.modules[name])
        return lambda: None
    watch = _Watch(name, call)
    sys.meta_path.insert(0, watch)
    return watch.remove


class _Watch(MetaPathFinder):
    """A finder that returns what the other finders find, and sees the module run."""

    def __init__(self, name: str, call: Callable[[ModuleType], object]) -> None:
        self._name = name
        self._call = call

    def remove(self) -> None:
        """Stops watching."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns the module's spec, whose loader calls the function at its end.

        A program may ask for a spec to learn if the module is installed, and import it later.
        """
        if fullname != self._name:
            return None
        spec = next(filter(None, self._found_by_others(fullname, path, target)), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: Any) -> None:
                load(module)
                if self in sys.meta_path:
                    self.remove()
                    self._call(module)

            spec.loader.exec_module = exec_module
        return spec

    def _found_by_others(self, *asked: Any) -> Any:
        # Finders before this one found nothing; two watches of one module would ask each other.
        finders = [*sys.meta_path]
        after = finders.index(self) + 1 if self in finders else 0
        for finder in finders[after:]:
            if hasattr(finder, "find_spec"):
                yield finder.find_spec(*asked)
