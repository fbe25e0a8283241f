"""Softmax with a result of float32, the logarithm of the sigmoid, and the dropout of CUDA alone.

Sources: ATen/native/cuda/{SoftMax,ActivationLogSigmoidKernel,Dropout}.cu. Of ``log_sigmoid``, CUDA
keeps nothing for the backward, where the CPU keeps a buffer.
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Final

import torch

from ..wide_dtype import wide

aten = torch.ops.aten


def softmax(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``_softmax``, in float32 if ``half_to_float``."""
    return torch.softmax(call.self, call.dim, _dtype(call))


def log_softmax(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``_log_softmax``, in float32 if ``half_to_float``."""
    return torch.log_softmax(call.self, call.dim, _dtype(call))


def softmax_backward(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``output * (grad - sum(output * grad))`` in the dtype of the input."""
    output, grad = wide(call.output), wide(call.grad_output)
    found = output * (grad - (output * grad).sum(call.dim, keepdim=True))
    return found.to(call.input_dtype)


def log_softmax_backward(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``grad - exp(output) * sum(grad)`` in the dtype of the input."""
    grad = wide(call.grad_output)
    found = grad - wide(call.output).exp() * grad.sum(call.dim, keepdim=True)
    return found.to(call.input_dtype)


def _dtype(call: SimpleNamespace) -> torch.dtype:
    return torch.float32 if call.half_to_float else call.self.dtype


def log_sigmoid(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the output and an empty buffer."""
    out, _ = aten.log_sigmoid_forward.default(call.self)
    return out, call.self.new_empty(0)


def log_sigmoid_backward(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``grad_output * sigmoid(-self)``."""
    grad: torch.Tensor = call.grad_output * torch.sigmoid(-wide(call.self))
    return grad.to(call.self.dtype)


def fused_dropout(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the kept values times ``1 / p`` and the mask of uint8; ``p`` is of keeping."""
    kept = torch.rand(call.self.shape) < call.p
    return _scaled(call.self, kept, 1 / call.p), kept.to(torch.uint8)


def masked_scale(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``self * mask * scale``."""
    return _scaled(call.self, call.mask, call.scale)


def _scaled(tensor: torch.Tensor, mask: torch.Tensor, scale: float) -> torch.Tensor:
    return (wide(tensor) * mask * scale).to(tensor.dtype)


OPERATORS: Final = MappingProxyType(
    {
        "aten._softmax.default": softmax,
        "aten._log_softmax.default": log_softmax,
        "aten._softmax_backward_data.default": softmax_backward,
        "aten._log_softmax_backward_data.default": log_softmax_backward,
        "aten.log_sigmoid_forward.default": log_sigmoid,
        "aten.log_sigmoid_backward.default": log_sigmoid_backward,
        "aten._fused_dropout.default": fused_dropout,
        "aten._masked_scale.default": masked_scale,
    }
)
