"""Rules for the fused cells of recurrent networks (ATen's cuda/RNN.cu)."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from .op_plan import AllocationPlan, OpCall, Output, Rule
from .plan_parts import allocate_outputs
from .reduction_launch import blocks_plan, sum_kernel
from .tensor_iterator import reduction


def _lstm_cell_backward(call: OpCall) -> AllocationPlan:
    """Plans the gradients of the gates and the cell, and the sum that both biases share."""
    gates = (Output(0), Output(1))
    return (*gates, *_bias(call, 0, 2)) if len(call.outputs) > 2 else gates


def _gru_cell_backward(call: OpCall) -> AllocationPlan:
    """Plans the gradients of both gates and the state, and the sums of the biases."""
    gates = allocate_outputs(call, 0, 1, 2)
    return (*gates, *_bias(call, 0, 3), *_bias(call, 1, 4)) if len(call.outputs) > 3 else gates


def _bias(call: OpCall, gates: int, bias: int) -> AllocationPlan:
    """Plans the sum of [B, gates] over the batch."""
    (batch, width), dtype = call.outputs[gates].shape, call.outputs[gates].dtype
    loop = reduction((batch, width), (width, 1), dtype.itemsize, [dtype.itemsize], (0,), False)
    return (Output(bias), *blocks_plan(loop, sum_kernel(dtype), call.profile))


RULES: Final = MappingProxyType[str, Rule](
    {
        # Forward, the gates for the backward come first, then the state and, of LSTM, the cell.
        "aten._thnn_fused_lstm_cell": lambda call: allocate_outputs(call, 2, 0, 1),
        "aten._thnn_fused_lstm_cell_backward_impl": _lstm_cell_backward,
        "aten._thnn_fused_gru_cell": lambda call: allocate_outputs(call, 1, 0),
        "aten._thnn_fused_gru_cell_backward": _gru_cell_backward,
    }
)
