"""The fused cells of recurrent networks: ATen/native/cuda/RNN.cu."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

from ..wide_dtype import wide


def lstm_cell(call: SimpleNamespace) -> tuple[torch.Tensor, ...]:
    """Returns the state [B, H], the cell [B, H] and the four gates [B, 4H] for the backward."""
    gates = _sum(call.input_gates, call.hidden_gates, call.input_bias, call.hidden_bias)
    enter, forget, new, leave = gates.chunk(4, 1)
    enter, forget, new, leave = enter.sigmoid(), forget.sigmoid(), new.tanh(), leave.sigmoid()
    cell = forget * wide(call.cx) + enter * new
    found = (leave * cell.tanh(), cell, torch.cat((enter, forget, new, leave), 1))
    return tuple(tensor.to(call.cx.dtype) for tensor in found)


def lstm_cell_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of the gates [B, 4H], of the cell [B, H] and of the bias [4H]."""
    if call.grad_hy is None and call.grad_cy is None:
        return None, None, None
    enter, forget, new, leave = wide(call.workspace).chunk(4, 1)
    state = 0 if call.grad_hy is None else wide(call.grad_hy)
    shown = wide(call.cy).tanh()
    cell = state * leave * (1 - shown * shown)
    if call.grad_cy is not None:
        cell = cell + wide(call.grad_cy)
    parts = (
        cell * new * (1 - enter) * enter,
        cell * wide(call.cx) * (1 - forget) * forget,
        cell * enter * (1 - new * new),
        state * shown * (1 - leave) * leave,
    )
    gates = torch.cat(parts, 1).to(call.workspace.dtype)
    return gates, (cell * forget).to(call.cx.dtype), gates.sum(0) if call.has_bias else None


def gru_cell(call: SimpleNamespace) -> tuple[torch.Tensor, ...]:
    """Returns the state [B, H], and the gates and the old state [B, 5H] for the backward."""
    from_input = _sum(call.input_gates, None, call.input_bias, None)
    from_hidden = _sum(call.hidden_gates, None, call.hidden_bias, None)
    (ir, ii, new), (hr, hi, hn) = from_input.chunk(3, 1), from_hidden.chunk(3, 1)
    reset, enter, old = (ir + hr).sigmoid(), (ii + hi).sigmoid(), wide(call.hx)
    new = (new + reset * hn).tanh()
    found = (new + enter * (old - new), torch.cat((reset, enter, new, old, hn), 1))
    return tuple(tensor.to(call.hx.dtype) for tensor in found)


def gru_cell_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of both gates [B, 3H], of the state [B, H] and of both biases [3H]."""
    grad = wide(call.grad_hy)
    reset, enter, new, old, hidden = wide(call.workspace).chunk(5, 1)
    of_enter = grad * (old - new) * (1 - enter) * enter
    of_new = grad * (1 - enter) * (1 - new * new)
    of_reset = of_new * hidden * (1 - reset) * reset
    dtype = call.workspace.dtype
    from_input = torch.cat((of_reset, of_enter, of_new), 1).to(dtype)
    from_hidden = torch.cat((of_reset, of_enter, of_new * reset), 1).to(dtype)
    biases = (from_input.sum(0), from_hidden.sum(0)) if call.has_bias else (None, None)
    return from_input, from_hidden, (grad * enter).to(dtype), *biases


def _sum(*tensors: torch.Tensor | None) -> torch.Tensor:
    first, *rest = [wide(tensor) for tensor in tensors if tensor is not None]
    for tensor in rest:
        first = first + tensor
    return first


OPERATORS: Final = MappingProxyType(
    {
        "aten._thnn_fused_lstm_cell.default": lstm_cell,
        "aten._thnn_fused_lstm_cell_backward_impl.default": lstm_cell_backward,
        "aten._thnn_fused_gru_cell.default": gru_cell,
        "aten._thnn_fused_gru_cell_backward.default": gru_cell_backward,
    }
)
