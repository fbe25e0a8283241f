"""cuDNN's recurrent networks: ATen/native/cudnn/RNN.cpp.

The backward runs the forward again under autograd, with the dropout of its seed. The reserve of a
training step holds that seed alone, where cuDNN's holds the activations: its size is not cuDNN's.
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

from ...nulldevice.cudnn import weight_elements
from ..dense_attention import drawn_seed

LSTM = 2
_GATES: Final = (1, 1, 4, 3)
#: The operators by cuDNN's number of the mode.
NETWORKS: Final = ("rnn_relu", "rnn_tanh", "lstm", "gru")


def dropout_state(call: SimpleNamespace) -> torch.Tensor:
    """Returns no state: the seed of the dropout is in the reserve."""
    return _empty(torch.uint8)


def forward(call: SimpleNamespace) -> tuple[torch.Tensor, ...]:
    """Returns the output, the last states, the last cells (empty without), reserve and weights."""
    seed = drawn_seed(call.dropout if call.train else 0.0)
    output, hy, *cells = _network(call, seed)
    reserve = torch.tensor([seed]).view(torch.uint8) if call.train else _empty(torch.uint8)
    weights = call.weight_buf
    if weights is None:
        weights = call.weight[0].new_zeros(weight_elements(call.weight, call.weight_stride0))
    return output, hy, cells[0] if cells else _empty(call.hx.dtype), reserve, weights


def backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of the input, states and cells, and a list of those of the weights."""
    seed = int(call.reserve.view(torch.int64)[0]) if call.reserve.numel() else 0
    inputs = [call.input, call.hx, call.cx, *call.weight]
    leaves = [None if one is None else one.detach().requires_grad_() for one in inputs]
    call.input, call.hx, call.cx, *call.weight = leaves
    with torch.enable_grad():
        outputs = _network(call, seed)
    grads = (call.grad_output, call.grad_hy, call.grad_cy)
    known = [(out, grad) for out, grad in zip(outputs, grads, strict=False) if grad is not None]
    found = iter(
        torch.autograd.grad(
            [out for out, _ in known],
            [leaf for leaf in leaves if leaf is not None],
            [grad for _, grad in known],
            materialize_grads=True,
        )
    )
    of_input, of_states, of_cells, *of_weights = [
        None if leaf is None else next(found) for leaf in leaves
    ]
    return of_input, of_states, of_cells, of_weights if call.output_mask[3] else []


def _network(call: SimpleNamespace, seed: int) -> tuple[torch.Tensor, ...]:
    """Returns output and last states, and last cells of an LSTM, as ``torch.lstm`` has them."""
    network = getattr(torch.ops.aten, NETWORKS[call.mode])
    states = [call.hx, call.cx] if call.mode == LSTM else call.hx
    biased = call.weight_stride0 > (3 if call.proj_size else 2)
    rest = (_shaped(call), biased, call.num_layers, call.dropout, call.train, call.bidirectional)
    generator = torch.default_generator
    before = generator.get_state()
    generator.manual_seed(seed)
    try:
        if call.batch_sizes:
            sizes = torch.tensor(call.batch_sizes)
            return tuple(network.data(call.input, sizes, states, *rest))
        return tuple(network.input(call.input, states, *rest, call.batch_first))
    finally:
        generator.set_state(before)


def _shaped(call: SimpleNamespace) -> list[torch.Tensor]:
    """Returns the weights as matrices and vectors: those of autocast are columns of a buffer."""
    rows = _GATES[call.mode] * call.hidden_size
    biases = (-1,) * (call.weight_stride0 // 4 * 2)
    projection = [(call.proj_size, -1)] if call.proj_size else []
    shapes = [(rows, -1), (rows, -1), *biases, *projection]
    layers = len(call.weight) // len(shapes)
    return [
        weight.reshape(shape) for weight, shape in zip(call.weight, shapes * layers, strict=True)
    ]


def _empty(dtype: torch.dtype) -> torch.Tensor:
    return torch.empty(0, dtype=dtype)


OPERATORS: Final = MappingProxyType(
    {
        "aten._cudnn_init_dropout_state.default": dropout_state,
        "aten._cudnn_rnn.default": forward,
        "aten._cudnn_rnn_backward.default": backward,
    }
)
