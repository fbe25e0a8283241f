"""CUDA's library of mathematical functions (libdevice), computed by PyTorch on the CPU.

A function is named as in libdevice without ``__nv_``; the suffix of its float32 form is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

#: The names that libdevice and PyTorch have in common.
_SAME: Final = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos"),
    *("cosh", "erf", "erfc", "erfinv", "exp", "exp2", "expm1", "floor", "fmax", "fmin", "fmod"),
    *("hypot", "lgamma", "log", "log10", "log1p", "log2", "pow", "rsqrt", "sin", "sinh", "sqrt"),
    *("tan", "tanh", "trunc"),
)
#: Those that are approximate on a GPU.
_FAST: Final = ("cos", "exp", "log", "log10", "log2", "pow", "sin", "tan", "tanh")

FUNCTIONS: Final[Mapping[str, Callable[..., torch.Tensor]]] = MappingProxyType(
    {
        **{name: getattr(torch, name) for name in _SAME},
        **{f"fast_{name}": getattr(torch, name) for name in _FAST},
        "cbrt": lambda x: torch.copysign(x.abs() ** (1 / 3), x),
        "exp10": lambda x: torch.pow(10.0, x),
        "fabs": torch.abs,
        "fma": lambda x, y, z: x * y + z,
        "fdim": lambda x, y: (x - y).clamp(min=0),
        "fast_exp10": lambda x: torch.pow(10.0, x),
        "fast_fdivide": torch.div,
        "finite": torch.isfinite,
        "isinf": torch.isinf,
        "isnan": torch.isnan,
        "nearbyint": torch.round,
        "rint": torch.round,
        "round": lambda x: torch.copysign(torch.floor(x.abs() + 0.5), x),
    }
)


def computed(symbol: str, arguments: list[Any]) -> Any:
    """Returns what a function of libdevice returns, as an array of NumPy.

    Args:
        symbol: the name, as ``__nv_tanhf``.
        arguments: arrays of NumPy.

    Raises:
        NotImplementedError: the function is not known.
    """
    name = symbol.removeprefix("__nv_")
    found = FUNCTIONS.get(name) or FUNCTIONS.get(name[:-1])
    if found is None:
        raise NotImplementedError(f"the function {symbol} of libdevice has no equivalent")
    return found(*[torch.from_numpy(argument.copy()) for argument in arguments]).numpy()
