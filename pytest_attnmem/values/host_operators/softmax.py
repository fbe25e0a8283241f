"""Softmax of half precision with a result of float32: ATen/native/cuda/SoftMax.cu."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Final

import torch


def softmax(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``_softmax``, in float32 if ``half_to_float``."""
    return torch.softmax(call.self, call.dim, _dtype(call))


def log_softmax(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``_log_softmax``, in float32 if ``half_to_float``."""
    return torch.log_softmax(call.self, call.dim, _dtype(call))


def softmax_backward(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``output * (grad - sum(output * grad))`` in the dtype of the input."""
    output, grad = _wide(call.output), _wide(call.grad_output)
    found = output * (grad - (output * grad).sum(call.dim, keepdim=True))
    return found.to(call.input_dtype)


def log_softmax_backward(call: SimpleNamespace) -> torch.Tensor:
    """Returns ``grad - exp(output) * sum(grad)`` in the dtype of the input."""
    grad = _wide(call.grad_output)
    found = grad - _wide(call.output).exp() * grad.sum(call.dim, keepdim=True)
    return found.to(call.input_dtype)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def _dtype(call: SimpleNamespace) -> torch.dtype:
    return torch.float32 if call.half_to_float else call.self.dtype


OPERATORS: Final = MappingProxyType(
    {
        "aten._softmax.default": softmax,
        "aten._log_softmax.default": log_softmax,
        "aten._softmax_backward_data.default": softmax_backward,
        "aten._log_softmax_backward_data.default": log_softmax_backward,
    }
)
