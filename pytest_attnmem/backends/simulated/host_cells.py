"""Cells of recurrent networks by the formulas of the CPU, which has no fused ones (RNN.cpp)."""

from __future__ import annotations

from typing import Any


def lstm_on_host(of_input: Any, of_state: Any, c: Any) -> tuple[Any, Any]:
    """Returns the next state [B, H] and cell [B, H], of both products [B, 4 H]."""
    gates = (of_input + of_state).chunk(4, 1)
    cell = gates[1].sigmoid() * c + gates[0].sigmoid() * gates[2].tanh()
    return gates[3].sigmoid() * cell.tanh(), cell


def gru_on_host(of_input: Any, of_state: Any, state: Any) -> Any:
    """Returns the next state [B, H], of both products [B, 3 H]."""
    inputs, states = of_input.chunk(3, 1), of_state.chunk(3, 1)
    reset, kept = ((states[gate] + inputs[gate]).sigmoid() for gate in (0, 1))
    new = (inputs[2] + states[2] * reset).tanh()
    return (state - new) * kept + new
