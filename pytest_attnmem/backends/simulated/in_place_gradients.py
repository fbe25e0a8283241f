"""The operators that autograd's formulas call in place on plain tensors, but not on a subclass.

Source: torch/csrc/autograd/FunctionsManual.cpp and derivatives.yaml. A key is a node of autograd
and the operator that its formula calls on a subclass.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import getrefcount
from types import MappingProxyType
from typing import Any, Final

import torch
from torch.utils._python_dispatch import _get_current_dispatch_mode

from ...torch_releases import minor_version

_aten = torch.ops.aten
_CROSS_ENTROPY: Final = "BinaryCrossEntropyWithLogitsBackward0"

INDEX_PUT: Final = _aten.index_put.default

#: Called on a gradient: in place if nothing else holds the gradient.
IF_UNSHARED: Final[Mapping[tuple[str, Any], Any]] = MappingProxyType(
    {
        ("IndexBackward0", INDEX_PUT): _aten._index_put_impl_.default,
        (_CROSS_ENTROPY, _aten.sub.Tensor): _aten.sub_.Tensor,
        (_CROSS_ENTROPY, _aten.mul.Tensor): _aten.mul_.Tensor,
    }
)

_BEFORE_2_14: Final = MappingProxyType(
    {
        ("ClampBackward0", _aten.logical_and.default): _aten.logical_and_.default,
        ("ClampBackward0", _aten.logical_or.default): _aten.logical_or_.default,
    }
)
_SINCE_2_14: Final = MappingProxyType(
    {
        (f"{node}Backward{overload}", _aten.masked_fill.Scalar): _aten.masked_fill_.Scalar
        for node, overload in (
            *(("Maximum", 0), ("Minimum", 0), ("Fmax", 0), ("Fmin", 0)),
            *(("Clamp", 0), ("ClampMin", 1), ("ClampMax", 1)),
            *(("ForeachMaximum", "0List"), ("ForeachMinimum", "0List")),
            *(("ForeachClampMin", "1List"), ("ForeachClampMax", "1List")),
        )
    }
)
_ALWAYS: Final = MappingProxyType(
    {
        ("CummaxBackward0", _aten.scatter_add.default): _aten.scatter_add_.default,
        ("CumminBackward0", _aten.scatter_add.default): _aten.scatter_add_.default,
        ("TakeBackward0", _aten.put.default): _aten.put_.default,
        **{
            (f"{node}Backward{overload}", _aten.logical_and.default): _aten.logical_and_.default
            for node, overload in (
                *(("Max", 1), ("Min", 1), ("Median", 0), ("Nanmedian", 0)),
                ("ForeachMax", 1),
            )
        },
    }
)
#: Called on a tensor that the formula has just made: always in place.
ON_FRESH: Final[Mapping[tuple[str, Any], Any]] = MappingProxyType(
    {
        **_ALWAYS,
        **(_SINCE_2_14 if minor_version(torch.__version__) >= (2, 14) else _BEFORE_2_14),
    }
)


def is_gradient_of_index() -> bool:
    """Returns True while autograd computes the gradient of a plain tensor that was indexed."""
    node = torch._C._current_autograd_node()
    if node is None or (node.name(), INDEX_PUT) not in IF_UNSHARED:
        return False
    mode: Any = _get_current_dispatch_mode()  # the fake mode, whose operator this is
    return not mode.autograd_calls.of_transform


def reference_counts(args: tuple[Any, ...]) -> tuple[int, int, int]:
    """Returns the reference counts of the first tensor in Python and C++, and that of its storage.

    The tensor is never an argument of a Python function here: a frame holds a reference to each of
    its arguments, or two once ``torch.compile`` has replaced the function that evaluates frames.
    """
    storage = args[0].untyped_storage()._cdata
    of_storage = torch._C._storage_Use_Count(storage)
    return getrefcount(args[0]), args[0]._use_count(), of_storage


def is_dense(tensor: Any) -> bool:
    """Returns True if the elements fill one range of memory, without gaps or overlaps."""
    if tensor.is_contiguous():
        return True
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected *= size
    return True
