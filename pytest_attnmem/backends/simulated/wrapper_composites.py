"""Composite operators of tensors that wrap simulated ones, such as DTensor.

C++ code sees a wrapper on ``meta`` and would compose an operator as it does there. Where a device
has another composition, the wrapper gets that of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch

from .op_kinds import CUDA_KERNELS, in_autograd, in_cpp
from .wrapped_tensors import wraps

_aten = torch.ops.aten

#: Composites that avoid in-place operators for wrappers on a device too, as they do for fakes.
_ALIKE: Final = frozenset(
    {
        *(_aten.linear.default, _aten.gather_backward.default, _aten.isclose.default),
        *(_aten.value_selecting_reduction_backward.default, _aten.trace_backward.default),
        *(_aten.index_select_backward.default, _aten.masked_select_backward.default),
    }
)


def for_wrappers(
    replacements: Mapping[Any, Callable[..., Any]],
) -> dict[Any, Callable[..., Any]]:
    """Returns what runs each composite of a wrapper as on a device; others run as before."""
    found = {
        op: _chosen(op, replacement)
        for op, replacement in replacements.items()
        if op not in _ALIKE and _is_composite(op)
    }
    for name in CUDA_KERNELS:
        op = getattr(_aten, name.removeprefix("aten::")).default
        found[op] = _chosen(op, partial(in_autograd, op))
    return found


def _chosen(op: Any, replacement: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        if any(map(wraps, args)):
            return replacement(*args, **kwargs)
        return in_cpp(op, *args, **kwargs)

    return run


def _is_composite(op: Any) -> bool:
    return bool(
        torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    )
