"""Softmax and its backward (aten/src/ATen/native/cuda/SoftMax.cu)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import torch

from ..op_plan import Call, Plan, Rule
from .plan_steps import born, while_held
from .tensor_bytes import copy_bytes, dense_bytes
from .tensor_iterator import contiguous_strides, result_strides


def _forward(call: Call) -> Plan:
    """Of a contiguous input."""
    x: torch.Tensor = call.args[0]
    return (*born(call), *while_held("contiguous input", copy_bytes(x)))


def _log_backward(call: Call) -> Plan:
    """Of contiguous gradient and output."""
    grad, output = call.args[:2]
    return (
        *born(call),
        *while_held(
            "contiguous gradient",
            copy_bytes(grad),
            while_held("contiguous output", copy_bytes(output)),
        ),
    )


def _backward(call: Call) -> Plan:
    """``grad * output`` is a whole tensor; it and the output are made contiguous."""
    grad, output = call.args[:2]
    product = dense_bytes(output, torch.result_type(grad, output))
    strides = result_strides(output.shape, (grad.stride(), output.stride()))
    plain = strides == tuple(contiguous_strides(output.shape))
    copies = while_held("contiguous output", copy_bytes(output))
    product_copy = while_held("contiguous product", 0 if plain else product, copies)
    return (*born(call), *while_held("grad*output", product, product_copy))


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._softmax.default": _forward,
        "aten._log_softmax.default": _forward,
        "aten._softmax_backward_data.default": _backward,
        "aten._log_softmax_backward_data.default": _log_backward,
    }
)
