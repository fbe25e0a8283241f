"""Shapes of operators that PyTorch has no rule of shapes for, or another, as kernels for ``meta``.

Sources: aten/src/ATen/native/cuda: MultiMarginLoss.cu, MultiLabelMarginCriterion.cu,
FractionalMaxPool3d.cu, LossCTC.cu and Nonzero.cu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

_aten = torch.ops.aten


def _like_second(grad: Any, x: Any, *_: Any, **__: Any) -> Any:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _places(x: Any, *, size: int, fill_value: int = -1) -> Any:
    """Returns places column by column, as CUDA's kernel lays them out (Nonzero.cu)."""
    shape, strides = (size, x.dim()), (1, max(size, 1))
    return torch.empty_strided(shape, strides, dtype=torch.int64, device="meta")


#: The kernels by operator; the first argument of most is a gradient, the second the input.
SHAPES: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {_aten.nonzero_static.default: _places}
    | dict.fromkeys(
        (
            _aten.multi_margin_loss_backward.default,
            _aten.multilabel_margin_loss_backward.default,
            _aten.fractional_max_pool3d_backward.default,
            _aten._ctc_loss_backward.default,
            _aten._ctc_loss_backward.Tensor,
        ),
        _like_second,
    )
)
