"""Calls inside transforms of ``torch.func``, where C++ code takes other paths than the simulation.

It composes an operator of wrapped tensors before the simulated device can replace it, and works in
place on none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch


def is_transformed() -> bool:
    """Returns True inside a transform, ``vmap`` or ``grad`` or another."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def unknown_inside(op: Any) -> str:
    """Returns the name of an operator without a model inside a transform."""
    return f"{op} under torch.func"


def dropouts(mark_unknown: Callable[[str], None]) -> Mapping[Any, Callable[..., Any]]:
    """Returns the functions of dropout, by what they replace: inside a transform it is unknown."""

    def run(function: Any, *args: Any, **kwargs: Any) -> Any:
        if is_transformed():
            mark_unknown(unknown_inside("aten.dropout.default"))
        return function(*args, **kwargs)

    return {function: partial(run, function) for function in _DROPOUTS}


_DROPOUTS = (torch.dropout, torch.nn.functional.dropout)
