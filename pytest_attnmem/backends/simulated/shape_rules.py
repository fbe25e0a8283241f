"""Shapes of operators that PyTorch has no rule of shapes for, as kernels for ``meta``.

Sources: aten/src/ATen/native/cuda: MultiMarginLoss.cu, MultiLabelMarginCriterion.cu,
FractionalMaxPool3d.cu and LossCTC.cu.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

_aten = torch.ops.aten


def _like_second(grad: Any, x: Any, *_: Any, **__: Any) -> Any:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


#: The kernels by operator; the first argument is a gradient, the second the input.
SHAPES: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    dict.fromkeys(
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
