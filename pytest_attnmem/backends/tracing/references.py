"""The way from an object to a tensor that it holds, as a person would type it.

``Session.history[0]["past"]`` is an instance, its dict, a list, a dict and a tensor.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Sequence
from contextvars import Context
from enum import Enum
from itertools import pairwise
from threading import local
from types import (
    AsyncGeneratorType,
    CellType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    TracebackType,
)
from typing import Any, Final, NamedTuple

import torch

from ...units import excerpt
from .owners import (
    ALONE,
    INSTANCE,
    LIBRARY,
    LOCAL,
    MODULE,
    NAMED,
    SAVED_BY,
    SUSPENDED,
    Edge,
    Owner,
    attributes,
    is_library,
    is_namespace,
)

#: The text of a step that has no name.
UNNAMED: Final = "something in "
_PLAIN: Final = (str, int, float, bool, bytes, complex, type(None), torch.dtype, torch.device)
#: The dicts that ``torch.nn.Module`` keeps its tensors and modules in.
_OF_MODULES: Final = re.compile(r'\._(?:modules|buffers|parameters)\[(?:"(\d+)"|"(\w+)")\]')
#: The attributes of pytest's objects that hold a fixture's value.
_OF_PYTEST: Final = re.compile(r'\.cached_result\[0\]|\.funcargs\["(\w+)"\]')


class Named(NamedTuple):
    """A tensor's owner, and the objects from the owner to the tensor."""

    owner: Owner
    chain: tuple[Any, ...]


def path(chain: Sequence[Any], found: Owner) -> str:
    """Returns the path along ``chain``, from the owner to the tensor, with the text around it.

    Each object of the chain refers to the next one.
    """
    edge = next((place for place in range(len(chain) - 1, 0, -1) if type(chain[place]) is Edge), 0)
    if edge:
        shown = "{}" if found.shown == SAVED_BY else found.shown
        return _over(chain[edge], path(chain[:edge], found._replace(shown=shown)))
    names, where = found.start, ""
    if "{" not in found.shown:
        return found.shown
    if type(chain[0]) is Context:
        names, chain = _variable(chain)
    space = type(chain[0]) is dict and found.rank == NAMED  # the variables of a module
    for place, (holder, held) in enumerate(pairwise(chain)):
        if type(held) is FrameType:
            line = holder.tb_lineno if type(holder) is TracebackType else held.f_lineno
            where = f"{os.path.basename(held.f_code.co_filename)}:{line}"
        elif type(holder) is FrameType:
            where = where or f"{os.path.basename(holder.f_code.co_filename)}:{holder.f_lineno}"
            names = _local(holder, held)
        elif type(held) is not TracebackType:
            before = chain[place - 1] if place else None
            step = _of_function(before, holder, held) or _step(holder, held, space)
            # An object with attributes of each thread has a dict that has a dict of each.
            of_thread = issubclass(type(before), local)
            names = names if of_thread else step.format(names)
            space = of_thread or is_namespace(holder, held)
    names = _OF_MODULES.sub(lambda m: f"[{m[1]}]" if m[1] else f".{m[2]}", names)
    names = _OF_PYTEST.sub(lambda m: m[1] or "", names)
    return found.shown.format(excerpt(names, 120).lstrip("."), where=where)


def _over(edge: Edge, holder: str) -> str:
    """Returns the path over an edge from what a tensor's holder is called."""
    if edge.text == "{}.grad" and " " in holder:
        return f"the gradient of {holder}"
    return edge.text.format(holder)


def _variable(chain: Sequence[Any]) -> tuple[str, Sequence[Any]]:
    """Returns the variable of a context, and the chain from its value on."""
    for variable, value in chain[0].items():
        for place, thing in enumerate(chain):
            if thing is value:
                return f"ContextVar {variable.name!r}", chain[place:]
    return "a context of contextvars", chain[-1:]


def _step(holder: Any, held: Any, space: bool) -> str:
    """Returns how one object refers to another: ``{}[3]``; ``{}`` where no name is typed.

    ``space`` is True for the dict of the attributes of an object, or of variables.
    """
    kind = type(holder)
    if issubclass(kind, local) or kind in (CellType, FunctionType) or is_namespace(holder, held):
        return "{}"
    if issubclass(kind, dict):
        return _entry(holder, held, space)
    if issubclass(kind, (list, tuple, deque)):
        index = next((place for place, item in enumerate(holder) if item is held), None)
        if index is not None:
            fields = getattr(kind, "_fields", ())
            named = isinstance(fields, tuple) and index < len(fields)
            return f"{{}}.{fields[index]}" if named else f"{{}}[{index}]"
    if issubclass(kind, (set, frozenset)):
        return "an element of {}"
    if kind in SUSPENDED and (frame := _frame(holder)) is not None:
        return "{}" + _local(frame, held)
    name = next(attributes(holder, held), "")
    return f"{{}}.{_escaped(name)}" if name else UNNAMED + "{}"


def _entry(holder: dict[Any, Any], held: Any, space: bool) -> str:
    for key, value in [*dict.items(holder)]:
        if value is held:
            if space and isinstance(key, str):
                return f"{{}}.{_escaped(key)}"
            return f"{{}}[{_escaped(_key(key))}]"
    if any(key is held for key in [*dict.keys(holder)]):
        return "a key of {}"
    return UNNAMED + "{}"


def _key(key: Any) -> str:
    """Returns a key as a program would write it; no method of the program runs."""
    kind = type(key)
    if kind is tuple and len(key) < 9:
        inner = ", ".join(map(_key, key))
        return f"({inner},)" if len(key) == 1 else f"({inner})"
    if kind is str and '"' not in key:
        return f'"{excerpt(repr(key)[1:-1], 60)}"'
    if issubclass(kind, Enum):
        return f"{kind.__name__}.{key._name_}"
    if issubclass(kind, type):
        return str(key.__qualname__)
    if kind in _PLAIN:
        return excerpt(repr(key), 60)
    return f"<{kind.__name__}>"


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _of_function(function: Any, holder: Any, held: Any) -> str:
    """Returns the variable of a closure, or the argument of a default; "" for anything else."""
    if type(function) is not FunctionType or type(holder) is not tuple:
        return ""
    code = function.__code__
    names = code.co_freevars
    if holder is function.__defaults__:
        names = code.co_varnames[: code.co_argcount][-len(holder) :]
    return next((name for name, one in zip(names, holder, strict=False) if one is held), "")


def _frame(thing: Any) -> FrameType | None:
    kind = {GeneratorType: "gi_frame", CoroutineType: "cr_frame", AsyncGeneratorType: "ag_frame"}
    frame: FrameType | None = getattr(thing, kind[type(thing)])
    return frame


def _local(frame: FrameType, held: Any) -> str:
    """Returns the variable of a frame that does not run, or the cell of one."""
    if type(held) is CellType:
        held = held.cell_contents
    names = (name for name, value in frame.f_locals.items() if value is held)
    return next(names, "something")


def says_more(new: Named, known: Named) -> bool:
    """Returns True if the path of ``new``, whose owner is further away, says more.

    ``Session.history[0].logits`` says more than ``Answer.logits``, and ``Net.layers[3].cache`` more
    than ``Block.cache``.
    """
    inside, outside = known.owner.rank, new.owner.rank
    if inside in (LIBRARY, LOCAL, ALONE) and outside < inside:
        return True
    if inside not in (INSTANCE, MODULE, LIBRARY) or outside > inside:
        return False
    if inside == MODULE and outside < inside and is_library(type(known.chain[0])):
        return True
    place = next((i for i, one in enumerate(new.chain) if one is known.chain[0]), 0)
    if not place:
        return False
    if inside == MODULE == outside:
        return True
    return path(new.chain[: place + 1], new.owner).endswith("]")
