"""Imports that run outside a simulation although the program makes them inside it.

The compiler of PyTorch takes a second to import, and most programs never need it, so a simulation
does not import it beforehand. An optimizer's step does. The module then keeps functions of
``torch.cuda`` for the whole process, and must not see the simulated ones.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

#: The module whose first import runs outside.
COMPILER = "torch._dynamo"


class _Outside(Loader):
    """A loader that runs another one outside the simulation."""

    def __init__(self, loader: Loader, outside: Callable[[], AbstractContextManager[None]]) -> None:
        self._loader = loader
        self._outside = outside

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        if spec is not None:
            spec.loader = module.__loader__ = self._loader
        with self._outside():
            self._loader.exec_module(module)


class _Finder(MetaPathFinder):
    """Finds one module, and has it imported outside the simulation."""

    def __init__(self, name: str, outside: Callable[[], AbstractContextManager[None]]) -> None:
        self._name = name
        self._outside = outside

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Outside(spec.loader, self._outside)
        return spec


@contextmanager
def imported_outside(
    outside: Callable[[], AbstractContextManager[None]], name: str = COMPILER
) -> Iterator[None]:
    """Runs the body; its first import of the module ``name`` runs in the context ``outside()``."""
    if name in sys.modules:
        yield
        return
    finder = _Finder(name, outside)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def without_compiler() -> Iterator[None]:
    """Runs the body, which is code of PyTorch, without the first import of the compiler.

    FakeTensorMode imports it to read two settings of its own cache, and the kernels of ``meta``
    that are Python code import it to tell it not to compile them.
    """
    settings = f"{COMPILER}.config"
    if COMPILER in sys.modules:
        yield
        return
    compiler, config = ModuleType(COMPILER), ModuleType(settings)
    vars(config).update(fake_tensor_cache_enabled=False, fake_tensor_cache_crosscheck_enabled=False)
    vars(compiler).update(config=config, disable=_disabled_later)
    sys.modules.update({COMPILER: compiler, settings: config})
    try:
        yield
    finally:
        del sys.modules[COMPILER], sys.modules[settings]


def _disabled_later(function: Any, recursive: bool = True, **options: Any) -> Any:
    """Returns the function; it is disabled for the compiler once the compiler is imported.

    ``torch._compile`` keeps what this returns in the attribute ``__dynamo_disable``.
    """

    def call(*args: Any, **kwargs: Any) -> Any:
        disable = getattr(sys.modules.get(COMPILER), "disable", _disabled_later)
        if disable is _disabled_later:
            return function(*args, **kwargs)
        function.__dynamo_disable = disable(function, recursive, **options)
        return function.__dynamo_disable(*args, **kwargs)

    return call
