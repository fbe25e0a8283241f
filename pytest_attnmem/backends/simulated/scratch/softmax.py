"""Rules for softmax and its backward (aten/src/ATen/native/cuda/SoftMax.cu)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

import torch

from .op_plan import AllocationPlan, OpCall, Rule, argument
from .plan_parts import allocate_outputs, contiguous, dense_bytes, temporaries
from .strides import Operand, is_contiguous, result_strides


def _forward(call: OpCall) -> AllocationPlan:
    """Plans the result, with a contiguous copy of the input."""
    x: torch.Tensor = call.args[0]
    return (*allocate_outputs(call), *contiguous({"input": x}))


def _forward_into(call: OpCall) -> AllocationPlan | None:
    """Plans a contiguous copy of the input, for a result that is contiguous."""
    x, out = call.args[0], argument(call, "out")
    if not out.is_contiguous() or out.shape != x.shape:
        return None
    return contiguous({"input": x})


def _log_backward(call: OpCall) -> AllocationPlan:
    """Plans the gradient, with contiguous copies of the incoming gradient and the output."""
    grad, output = call.args[:2]
    return (*allocate_outputs(call), *contiguous({"gradient": grad, "output": output}))


def _backward(call: OpCall) -> AllocationPlan:
    """Plans ``grad * output``, and contiguous copies of it and of the output."""
    grad, output = call.args[:2]
    product = dense_bytes(output, torch.result_type(grad, output))
    operands = [Operand(tensor.shape, tensor.stride()) for tensor in (grad, output)]
    strides = result_strides(output.shape, operands)
    plain = is_contiguous(output.shape, strides)
    sizes = {"grad*output": product, "contiguous product": 0 if plain else product}
    return (*allocate_outputs(call), *temporaries(sizes, contiguous({"output": output})))


RULES: Final = MappingProxyType[str, Rule](
    {
        "aten._softmax.default": _forward,
        "aten._log_softmax.default": _forward,
        "aten._softmax.out": _forward_into,
        "aten._log_softmax.out": _forward_into,
        "aten._softmax_backward_data.default": _backward,
        "aten._log_softmax_backward_data.default": _log_backward,
    }
)
