"""CUDA's kernels of convolutions of one channel a group: ATen/native/Convolution.cpp."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Final

import torch

aten = torch.ops.aten


def depthwise(call: SimpleNamespace) -> torch.Tensor:
    """Returns the convolution in which each channel of the input is a group."""
    groups = call.self.shape[-len(call.stride) - 1]
    places = (call.stride, call.padding, call.dilation)
    found: torch.Tensor = aten.convolution.default(
        call.self, call.weight, call.bias, *places, False, [0] * len(call.padding), groups
    )
    return found


OPERATORS: Final = MappingProxyType(
    {"aten._conv_depthwise2d.default": depthwise, "aten.conv_depthwise3d.default": depthwise}
)
