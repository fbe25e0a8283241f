"""PyTorch's functions that a program replaced, as a spy does, under the names of PyTorch.

PyTorch's code looks a function up by its name to tell a function mode about a call of it. Where a
program replaced the function, that call comes from the replacement, and names the replacement. A
mode that called that would run it twice.
"""

from __future__ import annotations

from types import (
    BuiltinFunctionType,
    MappingProxyType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
)
from typing import Any, Final

import torch
from torch.nn import init

_OF_C: Final = (BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType)
#: Where PyTorch's code looks its functions up, with what was there first.
_ORIGINALS: Final = MappingProxyType(
    {
        torch.Tensor: MappingProxyType({**vars(torch._C.TensorBase), **vars(torch.Tensor)}),
        **{
            module: MappingProxyType({**vars(module)})
            for module in (torch.nn.functional, torch.functional, init)
        },
    }
)
_ORIGINAL_IDS: Final = frozenset(
    id(function) for functions in _ORIGINALS.values() for function in functions.values()
)


class OriginalFunctions(dict[Any, Any]):
    """For the function that PyTorch names in a call, the function of PyTorch that was called.

    Keeps no function of a program alive, nor what that function holds.
    """

    def __missing__(self, func: Any) -> Any:
        if type(func) is MethodWrapperType:  # of an attribute, as in ``torch.Tensor.device``
            read = func.__self__
            original = _original(read)
            if original is not read:
                return getattr(original, func.__name__)
        else:
            own = isinstance(func, _OF_C) or func is torch.device
            original = func if own else _original(func)
            if original is not func:
                return original
            if not own and id(func) not in _ORIGINAL_IDS:
                return func
        self[func] = func
        return func


def _original(value: Any) -> Any:
    """Returns what had the name of the value in PyTorch first; the value itself if it has none."""
    if id(value) in _ORIGINAL_IDS:
        return value
    for owner, functions in _ORIGINALS.items():
        for name, present in vars(owner).items():
            if present is value:
                return functions.get(name, value)
    return value
