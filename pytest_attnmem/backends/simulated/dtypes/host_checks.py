"""Checks of dtypes that PyTorch's operators make on every device, asked of the host.

C++ code makes them before it chooses a kernel, but PyTorch's rules of shapes, Python code, leave
many out. So a call that is new runs once on the host, with one element in each dimension. An error
that speaks of types is the device's too, unless a kernel of the host raises it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import torch
from torch.utils._mode_utils import no_dispatch

from ..error_texts import numbers_kept

#: They warn about one element.
_DEVIATIONS: Final = ("std", "var", "std_mean", "var_mean")
#: Operators whose checks the host and CUDA share, in each overload, in place too.
_SHARED: Final = frozenset(
    {
        *("sub", "rsub", "clamp", "clamp_min", "clamp_max", "relu", "hardtanh", "threshold"),
        *("ceil", "floor", "trunc", "sign", "signbit", "heaviside"),
        *("fmax", "fmin", "maximum", "minimum", "addcdiv", "complex"),
        *("argmax", "argmin", "mvlgamma", *_DEVIATIONS),
        *("index_fill", "index_add", "index_copy", "index_reduce", "put"),
        *("soft_margin_loss", "linspace", "full_like", "new_full", "randint_like"),
    }
)
#: Operators whose kernels on CUDA convert their numbers to float for a tensor of half precision.
_BY_FLOAT: Final = frozenset({"clamp", "clamp_min", "clamp_max", "hardtanh"})
_OF_TYPES: Final = re.compile(
    "dtype|type|complex|bool|integ|float|Long|long|overflow|out of bounds for", re.IGNORECASE
)
_OF_A_KERNEL: Final = re.compile("\" not implemented for '")


def is_shared(func: Any) -> bool:
    """Returns True if the host checks the dtypes of an operator as CUDA does."""
    return func.namespace == "aten" and _name(func) in _SHARED


def error_on_host(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Exception | None:
    """Returns PyTorch's error for the dtypes of a call, or None."""
    arguments, name = func._schema.arguments, _name(func)
    small = partial(_small, length=2 if name in _DEVIATIONS else 1, by_float=name in _BY_FLOAT)
    with torch._C.DisableTorchFunction(), no_dispatch(), torch.no_grad(), numbers_kept(func):
        given = [small(value, arguments[at].name) for at, value in enumerate(args)]
        named = {name: small(value, name) for name, value in kwargs.items()}
        try:
            func(*given, **named)
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            text = str(error)
            if _OF_TYPES.search(text) and not _OF_A_KERNEL.search(text):
                return type(error)(text)
    return None


def _small(value: Any, name: str, length: int, by_float: bool) -> Any:
    if isinstance(value, torch.Tensor):
        dtype = torch.float if by_float and value.dtype is torch.half else value.dtype
        return torch.zeros((length,) * value.dim(), dtype=dtype)
    if isinstance(value, (list, tuple)):
        if name == "size":
            return [length] * len(value)
        return [_small(item, name, length, by_float) for item in value]
    if isinstance(value, torch.device):
        return torch.device("cpu")
    return None if isinstance(value, torch.Generator) else value


def _name(func: Any) -> str:
    name: str = func._schema.name.removeprefix("aten::").removesuffix("_")
    return name
