"""The state of a program, kept before the plugin runs a test again and put back after it.

A run of a test leaves something behind: entries of caches, items of lists, counters, attributes of
a model. The next test must find what one run of the test leaves, and not what five runs do.
"""

from __future__ import annotations

import logging
import os
import sys
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from ..errors import AttnMemError
from .project import INSTALLED, STANDARD
from .protocol import BackendProtocol, end_run
from .stand_ins import is_cache, is_replaced
from .state_graph import Explorer
from .state_kinds import Items, Node, is_lost, keep_data, write_data, write_function
from .window_stack import unseen

#: The most bytes of the CPU's tensors that are copied.
_MOST_BYTES: Final = 512 << 20
#: Packages that no test changes, or that have their own means of putting themselves back.
_LEFT_OUT: Final = frozenset(
    {"torch", "numpy", "pytest", "_pytest", "pluggy", "xdist", "execnet", "pytest_attnmem"}
    | {"triton", "sympy", "networkx", "hypothesis", "coverage", "pytest_cov"}
)


class ProgramState:
    """The state of a program's own modules and of some values, such as those of fixtures."""

    def __init__(
        self,
        values: Mapping[str, object],
        modules: Iterable[str] = (),
        backends: Iterable[BackendProtocol] = (),
        before: ProgramState | None = None,
    ) -> None:
        """The program begins in *modules*; *backends* must know of tensors that are made anew.

        If runs begin with the state *before*, they do not free what was made since: it is held.
        """
        self._backends = tuple(backends)
        self._process = ProcessState()
        for backend in self._backends:
            end_run(backend, settled=True)
        places = _reached([*modules, *(_module_of(value) for value in values.values())])
        explorer = Explorer(lambda name: places.get(name) == "own")
        roots: list[tuple[Node | None, object]] = []
        for name, place in places.items():
            names = vars(sys.modules[name])
            roots.append((explorer.module(name, names, place == "own"), names))
        roots += [(explorer.explore(name, value), value) for name, value in values.items()]
        self._roots = [(node, root) for node, root in roots if node is not None]
        self._values = frozenset(values)
        self._replaced = {
            name: (value, explorer.stand_in(name, value))
            for name, value in values.items()
            if is_replaced(value)
        }
        self._tensors, self._replaces = explorer.tensors, explorer.replaces
        self._functions = dict.fromkeys(explorer.functions)
        room = {"cpu": _MOST_BYTES}
        with unseen():
            for node in self._tensors:
                keep_data(node, room)
        self._known: frozenset[int] = explorer.release(None if before is None else before._known)

    @contextmanager
    def for_a_run(
        self, *, empty_caches: bool = True, begin: ProgramState | None = None
    ) -> Iterator[Mapping[str, object]]:
        """Gives a run empty caches of ``lru_cache`` and copies of iterators, then puts all back.

        Without ``empty_caches`` it has the caches themselves, which keep what it adds. With
        *begin*, the run begins with that state, but for the environment: a run in a world of
        another size has variables of its own. Yields what stands in for values, by name.
        """
        if begin is not None:
            begin._restore()
        try:
            yield (begin or self)._replace(empty_caches)
        finally:
            self.put_back()

    def _replace(self, empty_caches: bool) -> dict[str, object]:
        """Puts stand-ins in their places; returns those for values, by name."""
        made: dict[int, Any] = {}

        def replacement(value: Any, make: Callable[[], Any] | None) -> Any:
            if make is None or (is_cache(value) and not empty_caches):
                return value
            if id(value) not in made:
                made[id(value)] = make()
            return made[id(value)]

        for node, found in [*_walk(self._roots)] if self._replaces else ():
            if node.kind.write is not None and node.replaced:
                items = [
                    (key, replacement(value, node.replaced.get(key)))
                    for key, value in node.kind.read(found)
                ]
                node.kind.write(found, items)
        return {name: replacement(value, make) for name, (value, make) in self._replaced.items()}

    def put_values_back(self, names: Collection[str]) -> None:
        """Puts the values of these names back, and what they lead to."""
        restorer = _Restorer()
        for node, root in self._roots:
            if node.name in names and node.name in self._values:
                restorer.restored(node, root)

    def put_back(self) -> None:
        """Puts the state back, as it was when it was kept."""
        self._restore()
        self._process.put_back()

    def _restore(self) -> None:
        for backend in self._backends:
            end_run(backend, settled=False)
        restorer = _Restorer()
        with unseen():
            for node, root in self._roots:
                restorer.restored(node, root)
        for function in self._functions:
            if vars(function):
                write_function(function, [])

    def check_put_back(self) -> None:
        """Checks that all that the runs changed was put back.

        Raises:
            AttnMemError: a tensor that was changed is too large to be put back.
        """
        if self.lost:
            raise AttnMemError(
                f"the test changes {self.lost}, which is too large to be put back after another"
                " run; make it in the test"
            )

    @property
    def lost(self) -> str:
        """The name of a tensor that a run changed, and that is too large to be put back; or ""."""
        return next((node.name for node in self._tensors if is_lost(node)), "")


def _reached(begin: Iterable[str]) -> dict[str, str]:
    """Returns the modules that a program reaches by the names in its modules, with their places.

    Modules of *begin* reach what they and their functions import; a package that is reached reaches
    its own modules, unless it is that of the tests.
    """
    found: dict[str, str] = {}
    waiting = [*begin]
    tests = {name.partition(".")[0] for name in waiting}
    packages = set[str]()
    while waiting:
        name = waiting.pop()
        module = sys.modules.get(name)
        if name in found or not isinstance(module, types.ModuleType):
            continue
        found[name] = place = _place(module)
        package = name.partition(".")[0]
        if place and package not in packages | tests:
            packages.add(package)
            waiting += [other for other in [*sys.modules] if other.startswith(f"{package}.")]
        if place == "own":
            values = [*vars(module).values()]
            waiting += [_module_of(value) for value in values]
            inside = {used for value in values for used in _names_in(value)}
            waiting += [one for used in inside for one in (used, f"{module.__package__}.{used}")]
    return {name: place for name, place in found.items() if place}


def _names_in(value: object) -> Iterator[str]:
    """Yields the names in the code of a function, or of a class's: among them what it imports."""
    methods = vars(value).values() if isinstance(value, type) else ()
    waiting = [getattr(found, "__func__", found) for found in (value, *methods)]
    codes = [found.__code__ for found in waiting if isinstance(found, types.FunctionType)]
    while codes:
        code = codes.pop()
        yield from code.co_names
        codes += [one for one in code.co_consts if isinstance(one, types.CodeType)]


def _module_of(value: object) -> str:
    """Returns the name of the module that a value is or comes from; empty for other values."""
    if isinstance(value, types.ModuleType):
        return value.__name__
    if isinstance(value, (type, types.FunctionType)):
        return value.__module__ or ""
    return str(getattr(type(value), "__module__", ""))


def _place(module: types.ModuleType) -> str:
    """Returns ``own`` for a module of the program, ``installed`` for another library's, or ""."""
    name, file = module.__name__, getattr(module, "__file__", None)
    if file is None:
        return "own" if name == "__main__" else ""
    if name.partition(".")[0] in _LEFT_OUT:
        return ""
    if any(f"{os.sep}{folder}{os.sep}" in file for folder in INSTALLED):
        return "installed"
    return "" if file.startswith(STANDARD) else "own"


def _walk(roots: Iterable[tuple[Node, Any]]) -> Iterator[tuple[Node, Any]]:
    """Yields each node with its object, where that is alive and in its place."""
    waiting, seen = [*roots], set[int]()
    while waiting:
        node, now = waiting.pop()
        found = None if id(node) in seen else node.alive(now)
        if found is not None:
            seen.add(id(node))
            yield node, found
            values = dict(node.kind.read(found))
            waiting += [
                (child, values.get(key)) for key, child in node.edges if isinstance(child, Node)
            ]


class _Restorer:
    """Puts the objects of a graph back, each once."""

    def __init__(self) -> None:
        self._done: dict[int, Any] = {}

    def restored(self, node: Node, now: Any) -> Any:
        """Returns the object of a node with its values put back; *now* stands in its place.

        It is a new object if a run dropped the one that led to tensors.
        """
        if id(node) in self._done:
            return self._done[id(node)]
        found, kind = node.alive(now), node.kind
        if kind.write is None:
            before = {} if found is None else dict(kind.read(found))
            items = self._items(node, before)
            if kind.make is not None and not _same(before, items):
                found = kind.make(node, items)
            self._done[id(node)] = found
            return found
        if found is None and kind.make is not None:
            found = kind.make(node, [])
        self._done[id(node)] = found
        before = dict(kind.read(found))
        items = self._items(node, before)
        if not _same(before, items):
            kind.write(found, items)
        if node.is_tensor:
            write_data(node, found)
        return found

    def _items(self, node: Node, before: Mapping[Any, Any]) -> Items:
        return [
            (
                key,
                self.restored(child, before.get(key)) if isinstance(child, Node) else child.value,
            )
            for key, child in node.edges
        ]


def _same(before: Mapping[Any, Any], items: Items) -> bool:
    """Returns True if the values are the same objects, in the same order."""
    return len(before) == len(items) and all(
        (key is other or (type(key) is int and key == other)) and value is known
        for (key, value), (other, known) in zip(items, before.items(), strict=True)
    )


class ProcessState:
    """The environment, the path of imports, and the handlers of loggers.

    The root logger is left out, because pytest changes its handlers.
    """

    def __init__(self) -> None:
        self._environment = dict(os.environ)
        self._path = [*sys.path]
        self._handlers = {one: [*one.handlers] for one in _loggers()}

    def put_back(self) -> None:
        """Puts the state back, as it was when it was kept."""
        if dict(os.environ) != self._environment:
            os.environ.clear()
            os.environ.update(self._environment)
        if sys.path != self._path:
            sys.path[:] = self._path
        for one in _loggers():
            if one.handlers != (kept := self._handlers.get(one, [])):
                one.handlers[:] = kept


def _loggers() -> list[logging.Logger]:
    found = [*logging.Logger.manager.loggerDict.values()]
    return [one for one in found if isinstance(one, logging.Logger)]
