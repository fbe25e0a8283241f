"""How the objects that hold a program's state, tensors too, are read, written and made anew."""

from __future__ import annotations

import functools
import sys
import threading
import types
import weakref
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..errors import ProgramRefused
from .stand_ins import is_cache

#: Values by key, name or place.
Items = list[tuple[Any, Any]]

ATOMS: Final = (str, bytes, int, float, complex, bool, type(None), range, type(Ellipsis), slice)
_CONTAINERS: Final = (dict, list, set, OrderedDict, deque)
_MISSING: Final = object()
#: Pytest's marks of a test function: no run changes them.
_MARKS: Final = "pytestmark"


class Kind(NamedTuple):
    """How objects of a type are read, written, and made anew."""

    read: Callable[[Any], Items]
    write: Callable[[Any, Items], None] | None = None
    """Gives an object these values; None if it never changes."""
    make: Callable[[Node, Items], Any] | None = None
    """Returns a new object in the place of one that a run dropped; None if it is kept alive."""


@dataclass(slots=True, eq=False)
class Node:
    """An object that was found, with the values that it had."""

    kind: Kind
    of: Any
    """The type of the object."""
    identity: int
    name: str
    """The path to the object: ``masks._CACHE[64]``."""
    strong: Any = None
    weak: weakref.ref[Any] | None = None
    extra: Any = None
    """What its type needs to make it anew; of a tensor, a copy, or None if there is no room."""
    version: int = 0
    """The version of a tensor: each write raises it."""
    edges: list[tuple[Any, Node | Plain]] = field(default_factory=list)
    leads_to_tensor: bool = False
    replaced: dict[Any, Callable[[], Any]] = field(default_factory=dict)
    """By key, what makes stand-ins for the values in it that cannot be put back."""

    @property
    def is_tensor(self) -> bool:
        """True for a tensor of torch."""
        return self.kind is TENSOR

    def alive(self, now: Any) -> Any:
        """Returns the object if it is alive; *now* is the object in its place. Else None."""
        if self.strong is not None:
            return self.strong
        if self.weak is not None:
            return self.weak()
        return now if id(now) == self.identity and type(now) is self.of else None


class Plain(NamedTuple):
    """A value that has no state of its own."""

    value: Any


def _write_dict(found: dict[Any, Any], items: Items) -> None:
    base = OrderedDict if isinstance(found, OrderedDict) else dict
    base.clear(found)
    for key, value in items:
        base.__setitem__(found, key, value)


def _write_module(names: dict[str, Any], items: Items) -> None:
    """Writes a module's names. What a run imported or defined stays, as ``sys.modules`` has it."""
    for name in names.keys() - {name for name, _ in items}:
        if not isinstance(names[name], (types.ModuleType, types.FunctionType, type)):
            del names[name]
    names.update(items)


def _make_dict(node: Node, items: Items) -> Any:
    made = node.of.__new__(node.of)
    if node.extra is not None:
        made.default_factory = node.extra
    _write_dict(made, items)
    return made


def _make_tuple(node: Node, items: Items) -> Any:
    return tuple.__new__(node.of, [value for _, value in items])


def _make_list(node: Node, items: Items) -> Any:
    made = node.of.__new__(node.of)
    list.extend(made, [value for _, value in items])
    return made


def _write_list(found: list[Any], items: Items) -> None:
    list.__setitem__(found, slice(None), [value for _, value in items])


def _write_deque(found: deque[Any], items: Items) -> None:
    found.clear()
    found.extend(value for _, value in items)


def _write_set(found: set[Any], items: Items) -> None:
    found.clear()
    found.update(value for _, value in items)


#: The flag of a class that a ``class`` statement made (``Py_TPFLAGS_HEAPTYPE``).
_OF_PYTHON: Final = 1 << 9


def _slots(found: object) -> dict[str, types.MemberDescriptorType]:
    return {
        name: member
        for base in type(found).__mro__
        if "__slots__" in vars(base) or not base.__flags__ & _OF_PYTHON
        for name, member in vars(base).items()
        if isinstance(member, types.MemberDescriptorType)
    }


def _names(found: object) -> dict[str, Any]:
    """Returns the dict of an instance's attributes, without a call of code of its class."""
    base = threading.local if isinstance(found, threading.local) else object
    try:
        names: dict[str, Any] = base.__getattribute__(found, "__dict__")
    except AttributeError:
        return {}
    return names


def _attributes(found: object) -> Items:
    items: Items = [*_names(found).items()]
    for name, member in _slots(found).items():
        with suppress(AttributeError):  # it has no value
            items.append((name, member.__get__(found)))
    return items


def _write_attributes(found: object, items: Items) -> None:
    own, slots = _names(found), _slots(found)
    own.clear()
    own.update({name: value for name, value in items if name not in slots})
    for name, value in items:
        if name in slots:
            with suppress(AttributeError):  # of C, and only read
                slots[name].__set__(found, value)


def _make_instance(node: Node, items: Items) -> Any:
    made = object.__new__(node.of)
    _write_attributes(made, items)
    return made


_FIXED: Final = (types.MemberDescriptorType, types.GetSetDescriptorType)


def _class_attributes(found: type) -> Items:
    return [
        (name, value)
        for name, value in vars(found).items()
        if not (name.startswith("__") and name.endswith("__")) and not isinstance(value, _FIXED)
    ]


def _write_class(found: type, items: Items) -> None:
    before, now = dict(items), dict(_class_attributes(found))
    for name in now.keys() - before.keys():
        if not isinstance(now[name], (types.FunctionType, type)):
            type.__delattr__(found, name)
    for name, value in items:
        if now.get(name, _MISSING) is not value:
            type.__setattr__(found, name, value)


def _function_parts(found: types.FunctionType) -> Items:
    parts: Items = [(name, value) for name, value in vars(found).items() if name != _MARKS]
    return [*parts, *enumerate((found.__defaults__, found.__kwdefaults__, found.__closure__))]


def write_function(found: types.FunctionType, items: Items) -> None:
    """Gives a function these attributes; pytest's marks stay, and the other parts never change."""
    own = vars(found)
    kept = {name: value for name, value in own.items() if name == _MARKS}
    own.clear()
    own.update({**kept, **{name: value for name, value in items if type(name) is str}})


def has_parts(found: types.FunctionType) -> bool:
    """Returns True for a function with attributes, defaults or a closure, which may change."""
    return any(value is not None for _, value in _function_parts(found))


def _cell(found: types.CellType) -> Items:
    try:
        return [("", found.cell_contents)]
    except ValueError:  # not yet filled
        return []


def _write_cell(found: types.CellType, items: Items) -> None:
    for _, value in items:
        found.cell_contents = value


def _numbered(found: Iterable[Any]) -> Items:
    return [*enumerate(found)]


def _pairs(found: dict[Any, Any]) -> Items:
    return [*dict.items(found)]


def _caches(names: dict[str, Any]) -> Items:
    return [(name, value) for name, value in names.items() if _is_cache(value)]


def _is_cache(value: Any) -> bool:
    """Returns True for an ``lru_cache``, and for a container that is empty or has a tensor first.

    Other containers at the top of a library are its tables.
    """
    if is_cache(value):
        return True
    if type(value) not in _CONTAINERS:
        return False
    values = value.values() if isinstance(value, dict) else value
    first: Any = next(iter(values), None)
    return not value or any(is_tensor(one) for one in _flat(first))


def _flat(value: Any) -> Iterable[Any]:
    return value if type(value) in (tuple, list) else (value,)


#: The most bytes of a device's tensors that are copied: more might not fit on it.
_MOST_OF_DEVICES: Final = 64 << 20

#: The dicts of a tensor's hooks.
_HOOKS: Final = ("_backward_hooks", "_post_accumulate_grad_hooks")


def read_tensor(found: Any) -> Items:
    """Returns the gradient of a tensor, and the attributes that the program gave it."""
    leaf = found.is_leaf or found.retains_grad
    hooks = [(name, found.__getattribute__(name)) for name in _HOOKS if hasattr(found, name)]
    return [("grad", found.grad if leaf else None), *hooks, *vars(found).items()]


def write_tensor(found: Any, items: Items) -> None:
    """Gives a tensor its gradient and its attributes.

    Hooks stand in a dict, which is put back itself. Attributes of another class than torch's are
    left, as the class may need them.
    """
    import torch

    values = {name: value for name, value in items if name not in _HOOKS}
    grad = values.pop("grad")
    if grad is not None or found.is_leaf:
        found.grad = grad
    own = vars(found)
    if type(found) in (torch.Tensor, torch.nn.Parameter):
        own.clear()
    own.update(values)


def keep_data(node: Node, room: dict[str, int]) -> None:
    """Keeps a copy of the tensor's data, if there is *room* on its device; else the version."""
    found = node.strong
    node.version = getattr(found, "_version", 0)
    with suppress(ProgramRefused, Exception):  # a tensor without data, as a sparse one
        device = found.device.type
        room[device] = room.get(device, _MOST_OF_DEVICES) - found.untyped_storage().nbytes()
        if room[device] >= 0:
            node.extra = found.detach().clone()


def make_tensor(node: Node, _: Items) -> Any:
    """Returns a tensor with the data of one that a run dropped."""
    import torch

    made = node.extra.detach().clone()
    return torch.nn.Parameter(made) if node.of is torch.nn.Parameter else made


def write_data(node: Node, found: Any) -> None:
    """Writes the data of a tensor back, if a run wrote to it.

    Writes through ``tensor.data`` change no version, so those of the CPU are written in any case.
    """
    copied = node.extra
    if copied is None or (found._version == node.version and found.device.type != "cpu"):
        return
    try:
        if found.shape != copied.shape or found.dtype != copied.dtype:
            found.data = copied.clone()
        else:
            found.data.copy_(copied)
    except (ProgramRefused, RuntimeError):
        node.extra, node.strong = None, found  # it is lost
    else:
        node.version = found._version


def is_lost(node: Node) -> bool:
    """Returns True if a run wrote to a tensor whose data was not copied."""
    return node.extra is None and getattr(node.strong, "_version", 0) != node.version


MODULE: Final = Kind(_pairs, _write_module)
SHALLOW: Final = Kind(_caches, dict.update)
#: The containers that lead to tensors weakly, by base.
CONTAINERS: Final[Mapping[type, Kind]] = types.MappingProxyType(
    {
        dict: Kind(_pairs, _write_dict, _make_dict),
        list: Kind(_numbered, _write_list, _make_list),
        tuple: Kind(_numbered, None, _make_tuple),
    }
)
INSTANCE: Final = Kind(_attributes, _write_attributes, _make_instance)
CLASS: Final = Kind(_class_attributes, _write_class)
TENSOR: Final = Kind(read_tensor, write_tensor, make_tensor)
OF_TYPES: Final[Mapping[type, Kind]] = types.MappingProxyType(
    {
        types.FunctionType: Kind(_function_parts, write_function),
        types.CellType: Kind(_cell, _write_cell),
        types.MethodType: Kind(lambda found: [(0, found.__func__), (1, found.__self__)]),
        functools.partial: Kind(lambda found: _numbered((found.func, found.args, found.keywords))),
        property: Kind(lambda found: [(0, found.fget)]),
        classmethod: Kind(lambda found: [(0, found.__func__)]),
        staticmethod: Kind(lambda found: [(0, found.__func__)]),
        deque: Kind(_numbered, _write_deque),
        set: Kind(_numbered, _write_set),
    }
)


def is_tensor(value: object) -> bool:
    """Returns True for a tensor of torch."""
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    return tensor is not None and issubclass(type(value), tensor)
