"""Keeps compilers and higher-order operators away from the dispatcher's fallback of this package.

PyTorch's dispatcher for Python code, which compilers use with fake tensors, does not know the key
of the fallback. No tensor of the device is computed under a fake mode, so nothing is missed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode


def exclude(keys: Any) -> None:
    """Makes each fake mode exclude these dispatch keys while it is active, and copies to fake."""
    enter, leave = FakeTensorMode.__enter__, FakeTensorMode.__exit__
    function = FakeCopyMode.__torch_function__
    guards: list[Any] = []

    def entered(mode: FakeTensorMode) -> Any:
        guard = torch._C._ExcludeDispatchKeyGuard(keys)
        guard.__enter__()
        guards.append(guard)
        return enter(mode)

    def left(mode: FakeTensorMode, *error: Any) -> None:
        try:
            leave(mode, *error)
        finally:
            guards.pop().__exit__(None, None, None)

    def copied(mode: FakeCopyMode, *arguments: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return function(mode, *arguments)

    FakeCopyMode.__torch_function__ = copied  # type: ignore[assignment, method-assign]
    FakeTensorMode.__enter__ = entered  # type: ignore[method-assign]
    FakeTensorMode.__exit__ = left  # type: ignore[method-assign]


def pass_by_higher_order(key: Any) -> None:
    """Makes each operator that takes functions pass by this dispatch key.

    PyTorch dispatches them in Python, by the first key, and has no kernel of theirs for this one.
    The operators that they call include it: they may write, as DTensor's random operators do.
    """
    ops: Any = torch._ops
    ops._HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(key)
    for operator in ops._higher_order_ops.values():
        operator.fallthrough(key)
