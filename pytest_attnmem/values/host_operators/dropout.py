"""The dropout of CUDA alone: ATen/native/cuda/Dropout.cu."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Final

import torch


def fused(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the kept values times ``1 / p`` and the mask of uint8; ``p`` is of keeping."""
    kept = torch.rand(call.self.shape) < call.p
    return _scaled(call.self, kept, 1 / call.p), kept.to(torch.uint8)


def masked_scale(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``self * mask * scale``."""
    return _scaled(call.self, call.mask, call.scale)


def _scaled(tensor: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    wide = tensor if tensor.dtype == torch.float64 else tensor.float()
    return (wide * mask * scale).to(tensor.dtype)


OPERATORS: Final = MappingProxyType(
    {"aten._fused_dropout.default": fused, "aten._masked_scale.default": masked_scale}
)
