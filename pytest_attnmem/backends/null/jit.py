"""PyTorch's JIT beside the noting of operators: a trace in progress, and constants."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Final

import torch

_KEY: Final = torch._C._dispatch_key_parse("Tracer")
_TRACER: Final = torch._C.DispatchKeySet(_KEY)
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
    return not torch._C._dispatch_tls_local_exclude_set().has(_KEY)


@contextmanager
def untraced() -> Iterator[None]:
    """Stops the trace, which makes a tensor of each size that is read, and records it."""
    cpp: Any = torch._C
    state = cpp._get_tracing_state()
    included = torch._C._dispatch_tls_local_include_set()
    excluded = torch._C._dispatch_tls_local_exclude_set()
    with torch._C._ForceDispatchKeyGuard(included, excluded - _TRACER):
        cpp._set_tracing_state(None)
        try:
            yield
        finally:
            cpp._set_tracing_state(state)


def as_tensors(func: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the arguments of an operator; numbers become tensors where it takes no numbers.

    The constants of the JIT, which it compares, are tensors for C++ code and numbers for Python's.
    """
    if NUMBERS.isdisjoint(map(type, args)) or torch._C._should_allow_numbers_as_tensors(
        func._opname
    ):
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
