"""cuDNN's recurrent networks and CTC loss on the null device: outputs, and scratch that is unknown.

cuDNN plans attention and convolution without a device, and these only with one: they take a handle
(ATen/native/cudnn/{RNN,LossCTC}.cpp). So the operators have kernels here that allocate the outputs,
and call the runtime by the name of cuDNN's function. It counts the call, and a window with a
counted call is not enforced.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any

import torch

_KEPT = "_attnmem_cudnn"
_SEED_BYTES = 8  # of the equivalent on the CPU, which keeps the seed of its dropout there

Tensor = torch.Tensor


def stand_in() -> bool:
    """Replaces these kernels in PyTorch's dispatcher, for the rest of the process.

    Returns False if an earlier call did so.
    """
    if hasattr(torch.library, _KEPT):
        return False
    library = torch.library.Library("aten", "IMPL")
    setattr(torch.library, _KEPT, library)  # the kernels are removed with the library object
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Warning only once for all operators", UserWarning)
        warnings.filterwarnings("ignore", ".*[Oo]verriding a previously registered", UserWarning)
        for name, function, kernel in (
            ("_cudnn_rnn", "cudnnRNNForward", _network),
            ("_cudnn_rnn_backward", "cudnnRNNBackwardData_v8", _network_backward),
            ("_cudnn_init_dropout_state", "cudnnDropoutGetStatesSize", _dropout_state),
            ("_cudnn_ctc_loss", "cudnnCTCLoss_v8", _ctc_loss),
            ("_cudnn_ctc_loss.Tensor", "cudnnCTCLoss_v8", _ctc_loss),
        ):
            library.impl(name, _counted(function, kernel), "CUDA")
    return True


def _counted(function: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*args: Any, **kwargs: Any) -> Any:
        getattr(ctypes.CDLL(None), function)(None, None, None)
        return kernel(*args, **kwargs)

    return counted


def weight_elements(weights: list[Tensor], stride: int) -> int:
    """Returns the elements of the buffer of all weights, of which a layer has ``stride``.

    cuDNN's networks have two biases in each layer, also where PyTorch's have none.
    """
    missing = 0 if stride > 3 else 2 * weights[0].shape[0] * (len(weights) // stride)
    return sum(weight.numel() for weight in weights) + missing


def _network(
    input: Tensor, weight: list[Tensor], stride: int, buffer: Tensor | None, hx: Tensor,
    cx: Tensor | None, mode: int, hidden: int, projected: int, layers: int, batch_first: bool,
    dropout: float, train: bool, both: bool, batch_sizes: list[int], state: Tensor | None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Returns output [N, B, h], states [L, B, h], cells, reserve and buffer; 2*h, 2*L both ways."""
    out = input.new_empty(*input.shape[:-1], (1 + both) * (projected or hidden))
    cells = input.new_empty(0) if cx is None else torch.empty_like(cx)
    reserve = input.new_empty(_SEED_BYTES * train, dtype=torch.uint8)
    if buffer is None:  # the weights are not one buffer, so cuDNN gets a copy that is
        buffer = weight[0].new_empty(weight_elements(weight, stride))
    return out, torch.empty_like(hx), cells, reserve, buffer


def _network_backward(
    input: Tensor, weight: list[Tensor], stride: int, buffer: Tensor, hx: Tensor,
    cx: Tensor | None, *rest: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """Returns the gradients of the input, states and cells, and those of the weights if asked."""
    of_weights = [torch.empty_like(one) for one in weight] if rest[-1][3] else []
    of_cells = None if cx is None else torch.empty_like(cx)
    return torch.empty_like(input), torch.empty_like(hx), of_cells, of_weights


def _dropout_state(*_: object, device: torch.device, **__: object) -> Tensor:
    return torch.empty(0, dtype=torch.uint8, device=device)


def _ctc_loss(log_probs: Tensor, *_: object) -> tuple[Tensor, Tensor]:
    """Returns the losses [B] and the gradient [T, B, C]."""
    return log_probs.new_empty(log_probs.shape[1]), torch.empty_like(log_probs)
