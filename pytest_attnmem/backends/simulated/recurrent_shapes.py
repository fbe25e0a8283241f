"""Shapes of the fused cells of recurrent networks (ATen's cuda/RNN.cu)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

_aten = torch.ops.aten


def _lstm_cell(
    input_gates: torch.Tensor, _hidden: torch.Tensor, cx: torch.Tensor, *_: object
) -> tuple[torch.Tensor, ...]:
    """Returns the state [B, H], the cell [B, H] and the four gates [B, 4H]."""
    return _plain(cx), _plain(cx), _plain(input_gates)


def _lstm_cell_backward(
    _grad_hy: object, _grad_cy: object, cx: torch.Tensor, _cy: object, gates: torch.Tensor,
    has_bias: bool,
) -> tuple[torch.Tensor | None, ...]:  # fmt: skip
    """Returns the gradients of the gates [B, 4H], the cell [B, H] and the bias [4H]."""
    return _plain(gates), _plain(cx), gates.new_empty(gates.shape[1]) if has_bias else None


def _gru_cell(
    _input: torch.Tensor, _hidden: torch.Tensor, hx: torch.Tensor, *_: object
) -> tuple[torch.Tensor, ...]:
    """Returns the state [B, H] and the gates [B, 5H]."""
    return _plain(hx), hx.new_empty(hx.shape[0], hx.shape[1] * 5)


def _gru_cell_backward(
    grad_hy: torch.Tensor, gates: torch.Tensor, has_bias: bool
) -> tuple[torch.Tensor | None, ...]:
    """Returns the gradients of both gates [B, 3H], the state [B, H] and the biases [3H]."""
    batch, width = gates.shape[0], gates.shape[1] // 5 * 3
    of_gates = (gates.new_empty(batch, width), gates.new_empty(batch, width))
    biases = (gates.new_empty(width) if has_bias else None for _ in of_gates)
    return (*of_gates, _plain(grad_hy), *biases)


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


#: The kernels for ``meta`` by operator.
CELLS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        _aten._thnn_fused_lstm_cell.default: _lstm_cell,
        _aten._thnn_fused_lstm_cell_backward_impl.default: _lstm_cell_backward,
        _aten._thnn_fused_gru_cell.default: _gru_cell,
        _aten._thnn_fused_gru_cell_backward.default: _gru_cell_backward,
    }
)
