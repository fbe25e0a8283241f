"""cuDNN's loss of connectionist temporal classification: ATen/native/cudnn/LossCTC.cpp."""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Final

import torch

aten = torch.ops.aten


def loss(call: SimpleNamespace) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the costs [B] and the gradient of ``log_probs`` [T, B, C]."""
    lengths = [list(map(int, one)) for one in (call.input_lengths, call.target_lengths)]
    inputs = (call.log_probs, call.targets, *lengths)
    costs, alphas = aten._ctc_loss.default(*inputs, call.blank, call.zero_infinity)
    grad = aten._ctc_loss_backward.default(
        torch.ones_like(costs), *inputs, costs, alphas, call.blank, call.zero_infinity
    )
    return costs, grad


OPERATORS: Final = MappingProxyType(
    {"aten._cudnn_ctc_loss.default": loss, "aten._cudnn_ctc_loss.Tensor": loss}
)
