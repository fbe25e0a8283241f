"""The text of a simulated tensor, made by PyTorch's own code.

PyTorch makes the text of a tensor of CUDA by operators on the device, whose memory counts. It finds
no values in a fake, so the text is put together here as in ``_str_intern`` of torch/_tensor_str.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import torch
from torch import _tensor_str
from torch.utils._mode_utils import no_dispatch

if TYPE_CHECKING:
    from .observer import FakeMode

PRINTING: Final = "printing a tensor"
_PREFIX: Final = "tensor("


def printed(tensor: Any, fake_mode: FakeMode) -> str:
    """Returns the text of a tensor."""
    values = fake_mode.observer.value(tensor, PRINTING)
    indent = len(_PREFIX)
    if tensor.is_cuda and fake_mode.running:
        with torch.no_grad():
            contents = _tensor_str._tensor_str(tensor.detach(), indent)
    else:
        with torch._C.DisableTorchFunction(), no_dispatch():
            contents = _tensor_str._tensor_str(values, indent)
    return _tensor_str._add_suffixes(  # type: ignore[no-any-return]
        _PREFIX + contents, [*_suffixes(tensor)], indent, force_newline=False
    )


def _suffixes(tensor: Any) -> Iterator[str]:
    if tensor.is_cuda:
        yield f"device='{tensor._fake_device}'"
    empty = not tensor.numel()
    if (empty and tensor.dim() != 1) or not (empty or _tensor_str.PRINT_OPTS.edgeitems):
        yield f"size={tuple(tensor.shape)}"
    if tensor.dtype not in _unnamed(empty):
        yield f"dtype={tensor.dtype}"
    if tensor.grad_fn is not None:
        yield f"grad_fn=<{type(tensor.grad_fn).__name__}>"
    elif tensor.requires_grad:
        yield "requires_grad=True"


def _unnamed(empty: bool) -> tuple[torch.dtype, ...]:
    """Returns the dtypes that the elements tell."""
    default = torch.get_default_dtype()
    if empty:
        return (default,)
    is_double = default is torch.double
    return default, torch.cdouble if is_double else torch.cfloat, torch.int64, torch.bool
