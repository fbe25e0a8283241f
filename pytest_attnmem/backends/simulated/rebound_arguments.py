"""Functions of PyTorch, in Python, that let go of an argument before they end.

A temporary tensor of the caller is freed there. A mode that sees the call still holds the argument,
so such a function runs unseen, and the mode sees the calls that it makes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import FunctionType, MappingProxyType
from typing import Any, Final

import torch.nn.functional as F

#: What PyTorch's functions ask to find out if a mode sees their calls.
_ASKED: Final = "has_torch_function_variadic"


def _unseen(function: Any) -> Callable[..., Any]:
    known = {**function.__globals__, _ASKED: lambda *_: False}
    made = FunctionType(function.__code__, known, function.__name__, function.__defaults__)
    made.__kwdefaults__ = function.__kwdefaults__
    return made


#: Those that copy an argument under its own name, as PyTorch has them, and as no mode sees them.
_REBINDING: Final[Mapping[Any, Any]] = MappingProxyType(
    {function: _unseen(function) for function in (F.gaussian_nll_loss, F.embedding_bag)}
)


def patches() -> dict[tuple[Any, str], Any]:
    """Returns these functions as no mode sees them, by owner and name."""
    return {(F, function.__name__): unseen for function, unseen in _REBINDING.items()}


def rebinding(mark_unknown: Callable[[str], None]) -> dict[Any, Callable[..., Any]]:
    """Returns what replaces a call that the mode sees, of code that imported the function.

    Its memory is unknown. PyTorch names the function in the call, which is the one unseen.
    """

    def run(function: Any, *args: Any, **kwargs: Any) -> Any:
        mark_unknown(f"torch.nn.functional.{function.__name__}")
        return function(*args, **kwargs)

    return {named: partial(run, named) for pair in _REBINDING.items() for named in pair}
