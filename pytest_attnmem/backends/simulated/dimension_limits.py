"""The most dimensions that kernels of CUDA take; those of the CPU take more.

Source: ``MAX_TENSORINFO_DIMS`` of aten/src/ATen/cuda/detail/TensorInfo.cuh, and the null device.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import torch

from .overlaps import Check

_aten = torch.ops.aten
_MOST: Final = 25
#: Kernels that describe a tensor by a ``TensorInfo`` take one dimension less.
_IN_INFO: Final = "CUDA Tensors cannot have more than 25 dimensions"
_MEDIAN: Final = "median() cannot operate on more than 25 dimensions"
_ADDED: Final = "tensor has too many (>25) dims"
_NONZERO: Final = "nonzero is not supported for tensor with more than 25 dimensions"

#: The error for each operator, and whether it is one of those kernels.
_LIMITS: Final[Mapping[Any, tuple[str, bool]]] = MappingProxyType(
    {
        _aten.median.dim: (_MEDIAN, True),
        _aten.nanmedian.dim: (_MEDIAN, True),
        _aten.kthvalue.default: ("cannot operate on more than 25 dimensions", True),
        _aten.topk.default: ("input tensor has too many dimensions", True),
        _aten.index_select.default: ("Tensor too large or too many (> 25) dimensions", True),
        _aten.index_add.default: (_ADDED, True),
        _aten.index_add_.default: (_ADDED, True),
        _aten.put_.default: (_ADDED, False),
        _aten.take.default: (_ADDED, False),
        _aten.nonzero.default: (_NONZERO, False),
        _aten.masked_select.default: (_NONZERO, False),
    }
)


def check_of_dimensions(func: Any) -> Check | None:
    """Returns the check of an operator's dimensions, or None; it raises PyTorch's error."""
    limit = _LIMITS.get(func)
    return None if limit is None else partial(_check, *limit)


def _check(text: str, in_info: bool, args: tuple[Any, ...], _: Mapping[str, Any], __: Any) -> None:
    dims = args[0].dim()
    if dims > _MOST or (in_info and dims == _MOST):
        raise RuntimeError(text if dims > _MOST else _IN_INFO)
