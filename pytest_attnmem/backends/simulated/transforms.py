"""Calls inside transforms of ``torch.func``, where C++ code takes other paths than the simulation.

It composes an operator of wrapped tensors before the simulated device can replace it, and works in
place on none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch._functorch import eager_transforms

from ...errors import CannotSimulate


def is_transformed() -> bool:
    """Returns True inside a transform, ``vmap`` or ``grad`` or another."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def unwrapped(tensor: Any) -> Any:
    """Returns the tensor that the levels of transforms wrap; another tensor as it is."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor


def has_plain_formulas() -> bool:
    """Returns True where a device would run autograd's formulas for plain tensors."""
    return torch.is_grad_enabled() and not is_transformed()


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


def untraceable(refused: Callable[[str], CannotSimulate]) -> dict[tuple[Any, str], Any]:
    """Returns the patch that refuses ``torch.func.linearize``, which records a graph and runs it.

    What records it does not know simulated tensors.
    """

    def record(*_: Any, **__: Any) -> Any:
        raise refused(
            "torch.func.linearize cannot be simulated; use torch.func.jvp, or backend='null'"
        )

    return {(eager_transforms, "lazy_dynamo_disallow"): record}


_DROPOUTS = (torch.dropout, torch.nn.functional.dropout)
