"""The logarithm of the sigmoid: ATen/native/cuda/ActivationLogSigmoidKernel.cu.

CUDA keeps nothing for the backward, where the CPU keeps a buffer.
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Final

import torch

aten = torch.ops.aten


def forward(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the output and an empty buffer."""
    out, _ = aten.log_sigmoid_forward.default(call.self)
    return out, call.self.new_empty(0)


def backward(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``grad_output * sigmoid(-self)``."""
    wide = call.self if call.self.dtype == torch.float64 else call.self.float()
    grad: torch.Tensor = call.grad_output * torch.sigmoid(-wide)
    return grad.to(call.self.dtype)


OPERATORS: Final = MappingProxyType(
    {
        "aten.log_sigmoid_forward.default": forward,
        "aten.log_sigmoid_backward.default": backward,
    }
)
