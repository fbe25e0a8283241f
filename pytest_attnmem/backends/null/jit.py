"""PyTorch's JIT beside the noting of operators: a trace in progress, and constants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import torch

from ...values.dispatcher import (
    dispatching,
    excluded_keys,
    included_keys,
    key_named,
    takes_numbers,
)

_KEY: Final = key_named("Tracer")
_TRACER: Final = torch.DispatchKeySet(_KEY)
#: The dtypes of numbers that C++ code has as tensors, where those of ``torch.tensor`` are others.
_EXACT: Final[Any] = MappingProxyType({float: torch.float64, complex: torch.complex128})
NUMBERS: Final = frozenset({bool, int, float, complex})


def traces() -> bool:
    """Returns True in an operator that ``torch.jit.trace`` does not record, such as ``copy_``.

    It stops while an operator runs that it records.
    """
    return torch._C._get_tracing_state() is not None


def traces_inside() -> bool:
    """Returns True if it records the operators inside instead, as those of ``convolution``."""
    return not excluded_keys().has(_KEY)


@contextmanager
def untraced() -> Iterator[None]:
    """Stops the trace, which makes a tensor of each size that is read, and records it."""
    cpp: Any = torch._C
    state = cpp._get_tracing_state()
    included = included_keys()
    excluded = excluded_keys()
    with dispatching(included, excluded - _TRACER):
        cpp._set_tracing_state(None)
        try:
            yield
        finally:
            cpp._set_tracing_state(state)


def as_tensors(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the arguments of an operator; numbers become tensors where it takes no numbers.

    The constants of the JIT, which it compares, are tensors for C++ code and numbers for Python's.
    """
    if NUMBERS.isdisjoint(map(type, args)) or takes_numbers(func._opname):
        return args
    named = zip(args, func._schema.arguments, strict=False)
    return tuple(
        [
            torch.as_tensor(arg, dtype=_EXACT.get(type(arg)))
            if type(arg) in NUMBERS and isinstance(argument.type, torch.TensorType)
            else arg
            for arg, argument in named
        ]
    )
