"""The arguments of a Triton kernel, understood so far that the interpreter can take them."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import torch

from ...values.host_operators.triton_kernels import Held

_TENSORS: Final = (torch.Tensor, torch.nn.Parameter)
#: The arguments of a kernel that cannot hide a tensor, besides Triton's own types.
_PLAIN: Final = (int, float, str, type(None))
#: PyTorch's own kernels wrap what they only read, from 2.15 on.
_CONST: Final = ("torch._native.const_tensor_wrapper", "ConstTensorWrapper")
#: The smallest number that may be an address of the device.
_ADDRESS: Final = 2**32


class Expected(NamedTuple):
    """A launch that is about to happen."""

    function: Any
    """The ``JITFunction``."""
    arguments: Mapping[str, Any]
    """The arguments by name, a :class:`Held` in the place of each tensor."""
    tensors: list[torch.Tensor]


class NotUnderstood(Exception):
    """An argument that the interpreter does not take."""


def understood(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Expected | None:
    """Returns a launch; None if the interpreter does not take such a kernel or its arguments."""
    if getattr(function, "is_gluon", lambda: False)():
        return None
    named = {name: value for name, value in kwargs.items() if name in function.arg_names}
    tensors: list[torch.Tensor] = []
    try:
        given = inspect.getcallargs(function.fn, *args, **named)
        arguments = {name: _without_tensors(arg, tensors) for name, arg in given.items()}
    except (NotUnderstood, TypeError):  # Triton says so if an argument is missing
        return None
    return Expected(function, arguments, tensors)


def _without_tensors(arg: Any, tensors: list[torch.Tensor]) -> Any:
    """Returns an argument with a :class:`Held` in the place of each tensor.

    Raises:
        NotUnderstood: it is of a type that is not known.
    """
    if type(arg) in _TENSORS:
        if not arg.is_cuda:
            raise NotUnderstood  # what the kernel writes to the host is not noted
        tensors.append(arg)
        return Held(len(tensors) - 1)
    if isinstance(arg, tuple):
        items = (_without_tensors(item, tensors) for item in arg)
        make: Any = getattr(arg, "_make", tuple)  # it may be a named tuple
        return make(items)
    kind: Any = type(arg)
    place = (kind.__module__, kind.__name__)
    if place == ("triton.runtime.jit", "TensorWrapper"):
        held = _without_tensors(arg.base, tensors)
        return Held(held.position, partial(kind, dtype=arg.dtype))
    if place == _CONST:
        return _without_tensors(arg._tensor, tensors)
    if place == ("triton.tools.tensor_descriptor", "TensorDescriptor"):
        held = _without_tensors(arg.base, tensors)
        fields = {name: value for name, value in vars(arg).items() if name != "base"}
        return Held(held.position, partial(kind, **fields))
    if not isinstance(arg, _PLAIN) and place[0] not in (
        "triton.language.core",
        "triton.runtime.jit",
    ):
        raise NotUnderstood
    return arg


def makes_pointers(function: Any) -> bool:
    """Returns True if the code of a kernel, or of a function that it calls, names pointer types.

    Such a kernel may write to addresses that are none of its arguments.
    """
    kind, waiting, seen = type(function), [function], set[int]()
    while waiting:
        found = waiting.pop()
        if id(found) in seen or not isinstance(found, kind):
            continue
        seen.add(id(found))
        if "pointer_type" in getattr(found, "src", ""):
            return True
        code = getattr(found.fn, "__code__", None)
        names = getattr(code, "co_names", ())
        waiting += [found.fn.__globals__.get(name) for name in names]
    return False


def large_numbers(args: Iterable[Any]) -> list[int]:
    """Returns the numbers among the arguments that may be addresses."""
    return [arg for arg in args if type(arg) is int and arg >= _ADDRESS]


def held_tensors(args: Iterable[Any]) -> list[torch.Tensor] | None:
    """Returns the tensors in the arguments of a launch; None if one of them hides an address."""
    found: list[torch.Tensor] = []
    waiting = [*args]
    while waiting:
        arg = waiting.pop()
        if isinstance(arg, torch.Tensor):
            found.append(arg)
        elif isinstance(arg, (tuple, list)):
            waiting += arg
        elif isinstance(getattr(arg, "base", None), torch.Tensor):
            found.append(arg.base)
        elif (type(arg).__module__, type(arg).__name__) == _CONST:
            continue  # nothing is written there
        elif hasattr(arg, "data_ptr"):
            return None
    return found
