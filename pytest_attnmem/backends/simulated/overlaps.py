"""Writes in place into a tensor whose elements share memory, such as one that was expanded.

PyTorch refuses most of them (``assert_no_internal_overlap`` of aten/src/ATen/MemoryOverlap.cpp),
but its kernels for ``meta`` have no such check.
"""

from __future__ import annotations

from typing import Any, Final

import torch

_COPY: Final = torch.ops.aten.copy_.default
#: Pointwise operators that write into such a tensor.
_ALLOWED: Final = frozenset({"aten::conj_physical_", "aten::fill_", "aten::masked_fill_"})
#: Other operators that do not.
_REFUSED: Final = frozenset(
    f"aten::{name}_"
    for name in (
        *("abs", "bernoulli", "cauchy", "copy", "cumprod", "cumsum", "exponential", "gelu"),
        *("hardswish", "index_add", "index_copy", "log_normal", "masked_scatter", "mish"),
        *("normal", "put", "random", "rrelu_with_noise", "scatter", "scatter_add", "uniform"),
    )
)
_REFUSAL: Final = (
    "unsupported operation: more than one element of the written-to tensor refers to a single"
    " memory location. Please clone() the tensor before performing the operation."
)


def refuses_overlap(func: Any) -> bool:
    """Returns True for an operator in place that refuses tensors whose elements share memory."""
    name = getattr(getattr(func, "_schema", None), "name", "")
    if not name.endswith("_") or not name.startswith("aten::"):
        return False
    return name in _REFUSED or (torch.Tag.pointwise in func.tags and name not in _ALLOWED)


def check_overlap(func: Any, args: tuple[Any, ...]) -> None:
    """Checks the tensor that an operator in place is about to write.

    Raises:
        RuntimeError: elements of it share memory; the text is PyTorch's.
    """
    tensor = args[0]
    if 0 not in tensor.stride() or not tensor.numel():
        return
    if func is _COPY and args[1] is tensor:  # does nothing
        return
    sizes = zip(tensor.stride(), tensor.shape, strict=True)
    if any(stride == 0 and size > 1 for stride, size in sizes):
        raise RuntimeError(_REFUSAL)
