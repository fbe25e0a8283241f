"""PyTorch's own errors for calls that Python rules of sizes refuse, in other words than a device.

A kernel of the CPU checks the sizes with the code of the device's kernel, before it computes. Its
tensors have the sizes of the call's, and one element each, unless it writes into them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._pytree import tree_map

from ...errors import AttnMemError

#: The error of a kernel that the CPU does not have, or not for a dtype.
_ABSENT: Final = re.compile(r"""^Could not run 'aten::|" not implemented for '""")
_MOST_WRITTEN: Final = 1 << 30
ERRORS: Final = (
    *(RuntimeError, IndexError, AssertionError, NotImplementedError, ValueError),
    ZeroDivisionError,
)


def own_error(
    error: Exception, func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Exception:
    """Returns the error of PyTorch's kernels for a call, or ``error``."""
    return (not isinstance(error, AttnMemError) and kernel_error(func, args, kwargs)) or error


def kernel_error(
    func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, empty: bool = False
) -> Exception | None:
    """Returns the error of the CPU's kernel for a call; None if it raises none, or has no kernel.

    Args:
        func: the operator.
        args: its arguments; those that are tensors are not read.
        kwargs: its named arguments.
        empty: True to call it with tensors without elements, for an error that depends on numbers
            and dtypes alone.
    """
    most = _MOST_WRITTEN if func._schema.is_mutable else 0

    def stand_in(value: Any) -> Any:
        if isinstance(value, torch.device):
            return torch.device("cpu")
        if isinstance(value, torch._C.Generator):
            return torch._C.Generator()
        if not isinstance(value, torch.Tensor):
            return value
        if empty:
            return torch.empty(0, dtype=value.dtype, device="cpu")
        if value.numel() * value.dtype.itemsize <= most:
            return torch.zeros(value.shape, dtype=value.dtype, device="cpu")
        return torch.zeros((), dtype=value.dtype, device="cpu").expand(value.shape)

    with torch._C.DisableTorchFunction(), no_dispatch(), torch.no_grad(), numbers_kept(func):
        try:
            func(*tree_map(stand_in, args), **tree_map(stand_in, dict(kwargs)))
        except (RuntimeError, IndexError, ValueError) as own:
            absent = isinstance(own, NotImplementedError) and _ABSENT.search(str(own))
            return None if absent else own.with_traceback(None)
    return None


@contextmanager
def numbers_kept(func: Any) -> Iterator[None]:
    """Has the program draw the same random numbers afterwards, if the operator draws some."""
    if torch.Tag.nondeterministic_seeded not in func.tags:
        yield
        return
    generator, kind = torch._C.default_generator, torch._C.Generator
    state = kind.get_state(generator)
    try:
        yield
    finally:
        kind.set_state(generator, state)
