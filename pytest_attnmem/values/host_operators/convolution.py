"""cuDNN's convolutions and those of one channel a group: ATen/native/cudnn/ConvShared.cpp."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Final

import torch

aten = torch.ops.aten


def convolution(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``cudnn_convolution``, which has no bias."""
    return _convolution(call, None)


def transposed(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``cudnn_convolution_transpose``."""
    return _convolution(call, None, call.output_padding)


def with_relu(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``cudnn_convolution_relu``."""
    return _convolution(call, call.bias).relu_()


def added_with_relu(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``relu(convolution + alpha * z)``."""
    alpha = 1 if call.alpha is None else call.alpha
    return _convolution(call, call.bias).add_(call.z, alpha=alpha).relu_()


def depthwise(call: SimpleNamespace) -> torch.Tensor:
    """Returns the convolution in which each channel of the input is a group."""
    call.groups = call.self.shape[-len(call.stride) - 1]
    return _convolution(call, call.bias)


def _convolution(
    call: SimpleNamespace, bias: torch.Tensor | None, output_padding: list[int] | None = None
) -> torch.Tensor:
    found: torch.Tensor = aten.convolution.default(
        call.self,
        call.weight,
        bias,
        call.stride,
        call.padding,
        call.dilation,
        output_padding is not None,
        output_padding or [0] * len(call.padding),
        call.groups,
    )
    return found


OPERATORS: Final = MappingProxyType(
    {
        "aten.cudnn_convolution.default": convolution,
        "aten.cudnn_convolution_transpose.default": transposed,
        "aten.cudnn_convolution_relu.default": with_relu,
        "aten.cudnn_convolution_add_relu.default": added_with_relu,
        "aten._conv_depthwise2d.default": depthwise,
        "aten.conv_depthwise3d.default": depthwise,
    }
)
