"""Histograms of integers, which the CPU lacks: ATen/native/cuda/SummaryOps.cu."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Final

import torch


def histogram(call: SimpleNamespace) -> torch.Tensor:
    """Returns the counts [bins] of a tensor; the range is that of its values if it is empty."""
    values: torch.Tensor = call.self
    if values.dtype.is_floating_point:
        return torch.histc(values, call.bins, call.min, call.max)
    wide = values.flatten().to(torch.int64)
    low, high = int(call.min), int(call.max)
    if low == high and wide.numel():
        low, high = int(wide.min()), int(wide.max())
    if low == high:
        low, high = low - 1, high + 1
    inside = wide[(wide >= low) & (wide <= high)]
    places = ((inside - low) * call.bins // (high - low)).clamp(max=call.bins - 1)
    return torch.bincount(places, minlength=call.bins).to(values.dtype)


OPERATORS: Final = MappingProxyType({"aten.histc.default": histogram})
