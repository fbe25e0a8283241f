"""Composite operators of tensors that wrap simulated ones, such as DTensor, and of the host.

C++ code sees a wrapper on ``meta`` and would compose an operator as it does there. Where a device
has another composition, the wrapper gets that of the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

import torch

from .fake_tensor import SimulatedTensor
from .op_kinds import CUDA_KERNELS, in_autograd, in_cpp
from .recurrent import NETWORKS
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
#: Composites that read lengths or states from memory, or leave them to oneDNN.
_READING: Final = (
    *NETWORKS,
    _aten._pad_packed_sequence.default,
    _aten._pack_padded_sequence_backward.default,
    _aten.ctc_loss.IntList,
)


def for_wrappers(
    replacements: Mapping[Any, Callable[..., Any]],
) -> dict[Any, Callable[..., Any]]:
    """Returns what runs each composite of a wrapper as on a device; others run as before."""
    found = {
        op: _chosen(wraps, op, replacement)
        for op, replacement in replacements.items()
        if op not in _ALIKE and _is_composite(op)
    }
    for name in CUDA_KERNELS:
        op = getattr(_aten, name.removeprefix("aten::")).default
        found[op] = _chosen(wraps, op, partial(in_autograd, op))
    return found


def on_host(replacements: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Returns what runs the composites whose C++ code reads the memory of tensors of the host."""
    return {op: _chosen(_is_simulated, op, replacements[op]) for op in _READING}


def _is_simulated(value: Any) -> bool:
    return type(value) is SimulatedTensor


def _chosen(
    asks: Callable[[Any], bool], op: Any, replacement: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns what runs the replacement if one of the arguments asks for it."""

    def run(*args: Any, **kwargs: Any) -> Any:
        if any(map(asks, args)):
            return replacement(*args, **kwargs)
        return in_cpp(op, *args, **kwargs)

    return run


def _is_composite(op: Any) -> bool:
    return bool(
        torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), "CompositeImplicitAutograd")
    )
