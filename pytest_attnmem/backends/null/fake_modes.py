"""Keeps compilers and higher-order operators away from the dispatcher's fallback of this package.

PyTorch's dispatcher for Python code, which compilers use with fake tensors, does not know the key
of the fallback. No tensor of the device is computed under a fake mode, so nothing is missed.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_tensor import FakeTensorMode


def exclude(keys: Any) -> None:
    """Makes each fake mode exclude these dispatch keys while it is active."""
    enter, leave = FakeTensorMode.__enter__, FakeTensorMode.__exit__
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

    _exclude_from_higher_order(keys)
    FakeTensorMode.__enter__ = entered  # type: ignore[method-assign]
    FakeTensorMode.__exit__ = left  # type: ignore[method-assign]


def _exclude_from_higher_order(keys: Any) -> None:
    """Makes each operator that takes functions run without these dispatch keys.

    PyTorch dispatches them in Python, by the first key, and has no kernel of theirs for this one.
    The operators that they call are not noted, so their results are unknown.
    """
    call = HigherOrderOperator.__call__

    def called(operator: HigherOrderOperator, *args: Any, **kwargs: Any) -> Any:
        with torch._C._ExcludeDispatchKeyGuard(keys):
            return call(operator, *args, **kwargs)  # type: ignore[no-untyped-call]

    HigherOrderOperator.__call__ = called  # type: ignore[method-assign]
