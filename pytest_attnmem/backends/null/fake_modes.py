"""Compilers, which work under a fake mode, beside the dispatcher's fallback of this package.

PyTorch's dispatcher for Python code, which compilers use with fake tensors, does not know the key
of the fallback. No tensor of the device is computed under a fake mode, so nothing is missed, but
for constants: to fold them, Inductor leaves the fake mode, makes them on the device and reads them
(torch/_inductor/fx_passes/joint_graph.py). With zeros, it would compile another program.
"""

from __future__ import annotations

from functools import partial, wraps
from types import ModuleType
from typing import Any

from torch._ops import _HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS, _higher_order_ops

from ...values.dispatcher import dispatching, excluded_keys, excluding, included_keys
from ...values.host_graph import FakeCopies, FakeMode
from ..import_watch import after_import


def exclude(keys: Any) -> None:
    """Makes each fake mode exclude these dispatch keys while it is active, and copies to fake."""
    enter, leave = FakeMode.__enter__, FakeMode.__exit__
    function = FakeCopies.__torch_function__
    guards: list[Any] = []

    def entered(mode: FakeMode) -> Any:
        guard = excluding(keys)
        guard.__enter__()
        guards.append(guard)
        return enter(mode)

    def left(mode: FakeMode, *error: Any) -> None:
        try:
            leave(mode, *error)
        finally:
            guards.pop().__exit__(None, None, None)

    def copied(mode: FakeCopies, *arguments: Any) -> Any:
        with excluding(keys):
            return function(mode, *arguments)

    FakeCopies.__torch_function__ = copied  # type: ignore[assignment, method-assign]
    FakeMode.__enter__ = entered  # type: ignore[method-assign]
    FakeMode.__exit__ = left  # type: ignore[method-assign]


def pass_by_higher_order(key: Any) -> None:
    """Makes each operator that takes functions pass by this dispatch key.

    PyTorch dispatches them in Python, by the first key, and has no kernel of theirs for this one.
    The operators that they call include it: they may write, as DTensor's random operators do.
    """
    _HIGHER_ORDER_OP_DEFAULT_FALLTHROUGH_DISPATCH_KEYS.append(key)
    for operator in _higher_order_ops.values():
        operator.fallthrough(key)


#: The functions that compute constants, and their modules.
_FOLDING = (
    ("torch._inductor.fx_passes.joint_graph", "constant_fold_uniform_value"),
    ("torch._inductor.constant_folding", "constant_fold"),
)


def note_constants(keys: Any) -> None:
    """Makes the operators inside constant folding include these dispatch keys."""
    for name, function in _FOLDING:
        after_import(name, partial(_include, function, keys))


def _include(name: str, keys: Any, module: ModuleType) -> None:
    fold: Any = getattr(module, name)

    @wraps(fold)
    def folded(*args: Any, **kwargs: Any) -> Any:
        included = included_keys() | keys
        excluded = excluded_keys() - keys
        with dispatching(included, excluded):
            return fold(*args, **kwargs)

    setattr(module, name, folded)
