"""Recurrent networks and cells by PyTorch's own kernels, as their operators call them.

A function returns NotImplemented for arguments that the C++ code refuses
(aten/src/ATen/native/RNN.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import torch

from .recurrent_layers import (
    Cell,
    State,
    Weights,
    both_ways,
    full_layer,
    gru_step,
    lstm_step,
    packed_both_ways,
    packed_layer,
    run_layers,
    simple_step,
)

_aten = torch.ops.aten


def _gathered(params: Sequence[Any], biases: bool, projected: bool) -> list[Weights]:
    """Returns the flat list of parameters by layer and direction (``gather_params``)."""
    count = 2 + 2 * biases + projected
    found = []
    for start in range(0, len(params), count):
        own = params[start : start + count]
        ih_bias, hh_bias = own[2:4] if biases else (None, None)
        projection = own[-1] if projected else None
        found.append(Weights(own[0], own[1], ih_bias, hh_bias, projection))
    return found


def _fits(
    x: Any, hx: Sequence[Any], params: Sequence[Any], gates: int, size: int, layers: int
) -> bool:
    """Returns True for tensors that C++ code takes; ``size`` parameters are of one layer."""
    return (
        all(one.device == x.device for one in (*hx, *params))
        and all(one.dim() == 3 and one.shape[0] == layers for one in hx)
        and len(params) == size * layers
        and params[0].shape == (gates * hx[-1].shape[2], x.shape[-1])
    )


def _states_and_weights(
    x: Any, hx: Any, params: Sequence[Any], gates: int, has_biases: bool, layers: int
) -> tuple[list[State], list[Weights]] | None:
    """Returns the first states and the weights by layer; None for tensors that C++ code refuses."""
    hx = hx if isinstance(hx, (list, tuple)) else (hx,)
    projected = _is_projected(hx)
    if not _fits(x, hx, params, gates, 2 + 2 * has_biases + projected, layers):
        return None
    return _states(hx), _gathered(params, has_biases, projected)


def _is_projected(hx: Sequence[Any]) -> bool:
    """Returns True for an LSTM whose state is smaller than its cell."""
    return len(hx) == 2 and hx[0].shape[-1:] != hx[1].shape[-1:]


def _states(hx: Sequence[Any]) -> list[State]:
    parts = [one.unbind(0) for one in hx]
    return [*zip(*parts, strict=True)] if len(hx) > 1 else [*parts[0]]


def _stacked(finals: list[State]) -> tuple[Any, ...]:
    if isinstance(finals[0], tuple):
        return tuple(torch.stack(part, 0) for part in zip(*finals, strict=True))
    return (torch.stack(finals, 0),)


def _network(
    cell: Cell,
    gates: int,
    x: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    batch_first: bool,
) -> Any:
    """Runs a network on [N, B, I], or [B, N, I]: the outputs, and the last states."""
    layers = num_layers * (1 + bidirectional)
    parts = _states_and_weights(x, hx, params, gates, has_biases, layers)
    if x.dim() != 3 or not x.shape[batch_first] or parts is None:
        return NotImplemented
    inputs = x.transpose(0, 1) if batch_first else x
    out, finals = run_layers(
        partial(full_layer, cell),
        partial(both_ways, cell),
        inputs,
        *parts,
        dropout if train else 0,
        bidirectional,
    )
    made = _stacked(finals)
    if batch_first:
        out = out.transpose(0, 1) if len(made) > 1 else out.transpose_(0, 1)
    return (out, *made)


def _packed_network(
    cell: Cell,
    gates: int,
    x: Any,
    batch_sizes: Any,
    hx: Any,
    params: Sequence[Any],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
) -> Any:
    """Runs a network on packed sequences: the outputs, and the last states."""
    layers = num_layers * (1 + bidirectional)
    parts = _states_and_weights(x, hx, params, gates, has_biases, layers)
    if x.dim() != 2 or parts is None:
        return NotImplemented
    sizes = batch_sizes.tolist()
    out, finals = run_layers(
        partial(packed_layer, cell, sizes),
        partial(packed_both_ways, cell, sizes),
        x,
        *parts,
        dropout if train else 0,
        bidirectional,
    )
    return (out, *_stacked(finals))


def _lstm_cell(x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    if len(hx) != 2 or not _fits_cell(x, hx, w_ih, w_hh, 4):
        return NotImplemented
    return lstm_step(x, tuple(hx), Weights(w_ih, w_hh, b_ih, b_hh))


def _gru_cell(x: Any, hx: Any, w_ih: Any, w_hh: Any, b_ih: Any = None, b_hh: Any = None) -> Any:
    if not _fits_cell(x, (hx,), w_ih, w_hh, 3):
        return NotImplemented
    return gru_step(x, hx, Weights(w_ih, w_hh, b_ih, b_hh))


def _fits_cell(x: Any, hx: Sequence[Any], w_ih: Any, w_hh: Any, gates: int) -> bool:
    size = w_hh.shape[1]
    return (
        x.dim() == 2
        and w_ih.shape == (gates * size, x.shape[1])
        and w_hh.shape[0] == gates * size
        and all(one.shape == (x.shape[0], size) for one in hx)
    )


_STEPS: Final[tuple[tuple[str, Cell, int], ...]] = (
    ("lstm", lstm_step, 4),
    ("gru", gru_step, 3),
    ("rnn_tanh", partial(simple_step, torch.tanh), 1),
    ("rnn_relu", partial(simple_step, torch.relu), 1),
)
#: What runs the networks that cuDNN may compute, if cuDNN does not.
NETWORKS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {
        getattr(getattr(_aten, name), overload): partial(run, step, gates)
        for name, step, gates in _STEPS
        for overload, run in (("input", _network), ("data", _packed_network))
    }
)
#: What runs the cells, which cuDNN never computes.
CELLS: Final[Mapping[Any, Callable[..., Any]]] = MappingProxyType(
    {_aten.lstm_cell.default: _lstm_cell, _aten.gru_cell.default: _gru_cell}
)
