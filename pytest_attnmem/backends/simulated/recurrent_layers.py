"""The layers of recurrent networks, as Python code with the same calls.

Each function frees its tensors where the C++ code does (aten/src/ATen/native/RNN.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.functional import linear

from .host_cells import gru_on_host, lstm_on_host

_aten = torch.ops.aten
State = Any  # of an LSTM the pair of state and cell


class Weights(NamedTuple):
    """The weights of one layer in one direction."""

    ih: Any
    hh: Any
    ih_bias: Any = None
    hh_bias: Any = None
    projection: Any = None


#: Returns the next state, of an input [B, I] and a state [B, H].
Cell = Callable[[Any, State, Weights], State]


def _biased_products(x: Any, state: Any, weights: Weights) -> tuple[Any, Any]:
    return linear(x, weights.ih, weights.ih_bias), linear(state, weights.hh, weights.hh_bias)


def lstm_step(x: Any, state: State, weights: Weights) -> State:
    """Returns the next state [B, H] and cell [B, H], of an input [B, I]."""
    h, c = state
    if x.is_cpu:
        shown, cell = lstm_on_host(*_biased_products(x, h, weights), c)
    else:
        of_input, of_state = torch.matmul(x, weights.ih.t()), torch.matmul(h, weights.hh.t())
        shown, cell, _gates = _aten._thnn_fused_lstm_cell(
            of_input, of_state, c, weights.ih_bias, weights.hh_bias
        )
    if weights.projection is None:
        return shown, cell
    return torch.matmul(shown, weights.projection.t()), cell


def gru_step(x: Any, state: State, weights: Weights) -> State:
    """Returns the next state [B, H], of an input [B, I]."""
    if x.is_cpu:
        return gru_on_host(*_biased_products(x, state, weights), state)
    of_input, of_state = torch.matmul(x, weights.ih.t()), torch.matmul(state, weights.hh.t())
    return _aten._thnn_fused_gru_cell(of_input, of_state, state, weights.ih_bias, weights.hh_bias)[
        0
    ]


def simple_step(nonlinear: Callable[[Any], Any], x: Any, state: State, weights: Weights) -> Any:
    """Returns the next state [B, H], of an input [B, I]."""
    of_state = linear(state, weights.hh, weights.hh_bias)
    of_input = linear(x, weights.ih, weights.ih_bias)
    return nonlinear(of_state.add_(of_input))


def _shown(state: State) -> Any:
    return state[0] if isinstance(state, tuple) else state


def _each(function: Callable[..., Any], *states: State) -> State:
    """Returns what a function makes of states; of an LSTM, of both parts."""
    if isinstance(states[0], tuple):
        return tuple(function(*parts) for parts in zip(*states, strict=True))
    return function(*states)


def _over_steps(
    cell: Cell, steps: Iterable[Any], state: State, weights: Weights
) -> tuple[list[Any], State]:
    outputs = []
    for x in steps:
        state = cell(x, state, weights)
        outputs.append(_shown(state))
    return outputs, state


def full_layer(cell: Cell, x: Any, state: State, weights: Weights) -> tuple[Any, State]:
    """Runs a layer in one direction; ``x`` is [N, B, I]."""
    outputs, state = _over_steps(cell, x.unbind(0), state, weights)
    return torch.stack(outputs, 0), state


def both_ways(
    cell: Cell, x: Any, states: Sequence[State], weights: Sequence[Weights]
) -> tuple[Any, tuple[State, State]]:
    """Runs a layer in both directions; ``x`` is [N, B, I]."""
    steps = x.unbind(0)
    forth, last = _over_steps(cell, steps, states[0], weights[0])
    first_half = torch.stack(forth, 0)
    back, first = _over_steps(cell, steps[::-1], states[1], weights[1])
    back.reverse()
    second_half = torch.stack(back, 0)
    return torch.cat((first_half, second_half), first_half.dim() - 1), (last, first)


def packed_layer(
    cell: Cell, sizes: Sequence[int], x: Any, state: State, weights: Weights
) -> tuple[Any, State]:
    """Runs a layer on packed sequences, [sum of ``sizes``, I]; shorter ones end earlier."""
    outputs, ended = [], []
    start, before = 0, sizes[0]
    for size in sizes:
        step = x.narrow(0, start, size)
        start += size
        if size < before:
            ended.append(_each(lambda t, at=size, to=before: t.narrow(0, at, to - at), state))
            state = _each(lambda t, to=size: t.narrow(0, 0, to), state)
        before = size
        state = cell(step, state, weights)
        outputs.append(_shown(state))
    ended.append(state)
    ended.reverse()
    return torch.cat(outputs, 0), _each(lambda *parts: torch.cat(parts, 0), *ended)


def _packed_layer_back(
    cell: Cell, sizes: Sequence[int], x: Any, given: State, weights: Weights
) -> tuple[Any, State]:
    """Runs a layer on packed sequences from their ends; longer ones begin earlier."""
    outputs = []
    end, before = x.shape[0], sizes[-1]
    state = _each(lambda t: t.narrow(0, 0, before), given)
    for size in reversed(sizes):
        if size > before:
            more = _each(lambda t, at=before, to=size: t.narrow(0, at, to - at), given)
            state = _each(lambda *parts: torch.cat(parts, 0), state, more)
            del more
        step = x.narrow(0, end - size, size)
        end, before = end - size, size
        state = cell(step, state, weights)
        outputs.append(_shown(state))
    outputs.reverse()
    return torch.cat(outputs, 0), state


def packed_both_ways(
    cell: Cell,
    sizes: Sequence[int],
    x: Any,
    states: Sequence[State],
    weights: Sequence[Weights],
) -> tuple[Any, tuple[State, State]]:
    """Runs a layer on packed sequences in both directions."""
    forth, last = packed_layer(cell, sizes, x, states[0], weights[0])
    back, first = _packed_layer_back(cell, sizes, x, states[1], weights[1])
    return torch.cat((forth, back), -1), (last, first)


def _layers(
    layer: Callable[..., Any],
    x: Any,
    states: Sequence[State],
    weights: Sequence[Any],
    dropout: float,
) -> tuple[Any, list[State]]:
    """Runs the layers; ``states`` and ``weights`` have one, or a pair both ways, for each."""
    finals = []
    for place, (state, weight) in enumerate(zip(states, weights, strict=True)):
        out, final = layer(x, state, weight)
        finals.append(final)
        x = out
        if dropout and place < len(weights) - 1:
            x = torch.dropout(x, dropout, True)
        del out, final
    return x, finals


def run_layers(
    layer: Callable[..., Any],
    pair: Callable[..., Any],
    x: Any,
    states: Sequence[State],
    weights: Sequence[Weights],
    dropout: float,
    both: bool,
) -> tuple[Any, list[State]]:
    """Runs all layers, each by ``layer``, or by ``pair`` in both directions."""
    if not both:
        return _layers(layer, x, states, weights, dropout)
    out, finals = _layers(
        pair,
        x,
        [*zip(states[::2], states[1::2], strict=True)],
        [*zip(weights[::2], weights[1::2], strict=True)],
        dropout,
    )
    return out, [state for both_states in finals for state in both_states]
