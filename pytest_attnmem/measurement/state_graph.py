"""The objects that hold a program's state, found from its modules and from values of a test.

They are containers, attributes of instances and classes, closures, tensors and generators. A kept
graph must not keep tensors alive: a run that replaces a tensor frees the old one, and a number that
is measured meanwhile would be another one if the graph held it. So whatever leads to a tensor is
known weakly, and made anew where a run dropped it.
"""

from __future__ import annotations

import array
import contextvars
import io
import logging
import random
import sys
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

from .stand_ins import is_replaced, stand_in
from .state_kinds import (
    ATOMS,
    CLASS,
    CONTAINERS,
    INSTANCE,
    MODULE,
    OF_TYPES,
    SHALLOW,
    TENSOR,
    Items,
    Kind,
    Node,
    Plain,
    has_parts,
    is_tensor,
)

#: The most objects that are visited, and the longest path to one.
MOST: Final = 200_000
_DEEPEST: Final = 60
#: A longer container is data, such as a vocabulary.
_LONGEST: Final = 20_000
#: Packages whose instances are not a program's state.
_FOREIGN: Final = frozenset(
    {"_pytest", "pytest", "pluggy", "xdist", "execnet", "pytest_attnmem", "numpy", "builtins"}
    | sys.stdlib_module_names
)
#: Modules of the standard library in whose instances programs count and keep things.
_COUNTED: Final = frozenset(
    {"types", "collections", "queue", "weakref", "_thread", "unittest.mock"}
)


class Explorer:
    """Visits objects from roots; ``own`` says which modules' classes and functions are visited."""

    def __init__(self, own: Callable[[str], bool]) -> None:
        self._own = own
        self._nodes: dict[int, Node] = {}
        self._objects: list[Any] = []
        self.tensors: list[Node] = []
        """The nodes of tensors."""
        self.functions: list[types.FunctionType] = []
        """The functions without attributes, to which a run may give some."""
        self.replaces = False
        """True if a value was found that is replaced for a run."""
        self._parents: dict[int, list[Node]] = {}
        self._stand_ins: dict[int, Callable[[], Any]] = {}

    def module(self, name: str, names: dict[str, Any], own: bool) -> Node | None:
        """Returns the node of a module's names: of a library's, those of caches and containers."""
        kind, depth = (MODULE, 0) if own else (SHALLOW, _DEEPEST - 2)
        return self.explore(name, names, kind, depth)

    def explore(
        self, name: str, root: Any, kind: Kind | None = None, depth: int = 0
    ) -> Node | None:
        """Returns the node of a root, with what it leads to; None if it has no state."""
        if id(root) in self._nodes:
            return self._nodes[id(root)]
        found = self._node(name, root, kind)
        if found is None:
            return None
        waiting = [(found, root, depth)]
        while waiting and len(self._nodes) < MOST:
            node, value, depth = waiting.pop()
            for key, child in node.kind.read(value):
                known = self._nodes.get(id(child))
                reached = known
                if known is None and depth < _DEEPEST:
                    reached = self._node(_path(node, key), child)
                node.edges.append((key, reached or Plain(child)))
                if is_replaced(child):
                    node.replaced[key] = self.stand_in(_path(node, key), child)
                    self.replaces = True
                if reached is not None:
                    self._parents.setdefault(reached.identity, []).append(node)
                    if known is None:
                        waiting.append((reached, child, depth + 1))
        return found

    def stand_in(self, name: str, value: Any) -> Callable[[], Any]:
        """Returns what makes stand-ins for a value that cannot be put back."""
        if id(value) not in self._stand_ins:
            self._objects.append(value)
            self._stand_ins[id(value)] = stand_in(name, value)
        return self._stand_ins[id(value)]

    def release(self, among: Collection[int] | None = None) -> frozenset[int]:
        """Lets go of what leads to a tensor whose data is copied; returns who was found.

        With *among*, only of these objects.
        """
        waiting = [node for node in self.tensors if node.extra is not None]
        while waiting:
            node = waiting.pop()
            if not node.leads_to_tensor:
                node.leads_to_tensor = True
                waiting += self._parents.get(node.identity, ())
        for node in self._nodes.values():
            if among is not None and node.identity not in among:
                continue
            if node.leads_to_tensor and node.kind.make is not None:
                try:
                    node.weak = weakref.ref(node.strong)
                except TypeError:  # a list, a dict or a tuple: known by its place
                    node.weak = None
                node.strong = None
        self._objects.clear()
        return frozenset(self._nodes)

    def _node(self, name: str, value: Any, kind: Kind | None = None) -> Node | None:
        kind = kind or self._kind(value)
        if kind is None:
            return None
        extra = value.default_factory if type(value) is defaultdict else None
        node = Node(kind, type(value), id(value), name, value, extra=extra)
        self._nodes[id(value)] = node
        self._objects.append(value)  # so that no other object gets its identity
        if kind is TENSOR:
            self.tensors.append(node)
        return node

    def _kind(self, value: Any) -> Kind | None:
        found = type(value)
        if found in ATOMS or found in (types.ModuleType, Value) or is_replaced(value):
            return None
        if is_tensor(value):
            return TENSOR
        if found is types.FunctionType:
            if not self._own(value.__module__ or ""):
                return None
            if has_parts(value):
                return OF_TYPES[found]
            self.functions.append(value)
            return None
        if issubclass(found, type):
            return CLASS if self._own(value.__module__) else None
        if issubclass(found, (*CONTAINERS, set, deque)) and len(value) > _LONGEST:
            return None
        if found in OF_TYPES:
            return OF_TYPES[found]
        if (kind := value_kind(value)) is not None:
            return kind
        for base, kind in CONTAINERS.items():
            if issubclass(found, base):
                return kind
        package = found.__module__.partition(".")[0]
        counted = found.__module__ in _COUNTED or issubclass(found, logging.Handler)
        return INSTANCE if package not in _FOREIGN or counted else None


def _path(node: Node, key: Any) -> str:
    if node.kind in CONTAINERS.values():
        text = repr(key) if isinstance(key, (str, int, float, tuple)) else type(key).__name__
        return f"{node.name}[{text}]"
    return f"{node.name}.{key}" if isinstance(key, str) and key else node.name


#: The most bytes of an array that are copied.
_MOST_BYTES: Final = 64 << 20


class Value(NamedTuple):
    """A value that is not searched for further state."""

    of: Any


def value_kind(found: Any) -> Kind | None:
    """Returns how an object is read and written whose state is one value; else None."""
    for base, kind in _OF_TYPES:
        if isinstance(found, base):
            return kind
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None and type(found) is numpy.ndarray:
        return _ARRAY if found.nbytes <= _MOST_BYTES and found.flags.writeable else None
    if type(found).__module__.startswith("numpy.random"):
        return next((kind for name, kind in _OF_NUMPY if hasattr(found, name)), None)
    torch: Any = sys.modules.get("torch")
    generator = getattr(torch, "Generator", None)
    if generator is not None and type(found) is generator:
        return _one(lambda own: own.get_state(), lambda own, state: own.set_state(state))
    return None


def _one(read: Callable[[Any], Any], write: Callable[[Any, Any], object]) -> Kind:
    def write_items(found: Any, items: Items) -> None:
        for _, value in items:
            write(found, value.of)

    return Kind(lambda found: [("", Value(read(found)))], write_items)


def _set_slice(found: Any, value: Any) -> None:
    found[:] = value


def _write_array(found: Any, value: Any) -> None:
    found[...] = value


def _write_stream(found: Any, state: tuple[Any, int]) -> None:
    text, place = state
    found.seek(0)
    found.truncate()
    found.write(text)
    found.seek(place)


def _write_variable(found: contextvars.ContextVar[Any], items: Items) -> None:
    for _, value in items:
        found.set(value)


def _read_variable(found: contextvars.ContextVar[Any]) -> Items:
    value = found.get(_UNSET)
    return [] if value is _UNSET else [("", value)]


_UNSET: Final = object()
_ARRAY: Final = _one(lambda found: found.copy(), _write_array)
_STATE: Final = _one(lambda found: found.getstate(), lambda found, state: found.setstate(state))
_STREAM: Final = _one(lambda found: (found.getvalue(), found.tell()), _write_stream)
_OF_TYPES: Final[tuple[tuple[Any, Kind | None], ...]] = (
    (random.SystemRandom, None),
    (random.Random, _STATE),
    (bytearray, _one(bytes, _set_slice)),
    (array.array, _one(lambda found: found[:], _set_slice)),
    ((io.StringIO, io.BytesIO), _STREAM),
    (contextvars.ContextVar, Kind(_read_variable, _write_variable)),
)
#: The generators of NumPy, by what they have.
_OF_NUMPY: Final = (
    ("set_state", _one(lambda own: own.get_state(), lambda own, state: own.set_state(state))),
    (
        "bit_generator",
        _one(
            lambda own: own.bit_generator.state,
            lambda own, state: setattr(own.bit_generator, "state", state),
        ),
    ),
)
