"""cuDNN's attention: ATen/native/transformers/cuda/attention.cu.

A causal mask begins at the first query and the first key.
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

from ...errors import CannotCompute
from ..dense_attention import Scores, attend, attend_backward, visible_band
from ..random_seed import drawn_seed, dropout


def scaled_dot_product(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns what ``_scaled_dot_product_cudnn_attention`` does, of [B, H, N, d].

    The logsumexp is [B, H, N, 1].
    """
    seed = drawn_seed(call.dropout_p)
    lengths = (call.query.shape[2], call.key.shape[2])
    out, lse = attend(call.query, call.key, call.value, _how(call, lengths, seed))
    states = (torch.tensor(seed), torch.tensor(0))
    return (out, lse.unsqueeze(-1), None, None, *lengths, *states, None)


def scaled_dot_product_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of query, key and value, [B, H, N, d]."""
    if call.cum_seq_q is not None and call.cum_seq_q.numel():
        raise CannotCompute("packed sequences (cum_seq_q) have no equivalent")
    lengths = (call.query.shape[2], call.key.shape[2])
    how = _how(call, lengths, call.philox_seed)
    inputs = (call.query, call.key, call.value)
    return attend_backward(call.grad_out, inputs, call.out, call.logsumexp.squeeze(-1), how)[:3]


def forward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns what ``_cudnn_attention_forward`` does without packed sequences."""
    if call.cum_seq_q is not None:
        raise CannotCompute("packed sequences (cum_seq_q) have no equivalent")
    return scaled_dot_product(call)


def _how(call: SimpleNamespace, lengths: tuple[int, int], seed: torch.Tensor | int) -> Scores:
    scale = call.query.shape[-1] ** -0.5 if call.scale is None else call.scale
    bias, visible = call.attn_bias, None
    if bias is not None and bias.dtype == torch.bool:
        bias, visible = None, bias
    if call.is_causal:
        causal = visible_band(*lengths, None, 0, from_the_end=False)
        visible = causal if visible is None or causal is None else visible & causal
    return Scores(scale, bias, visible, dropout(call.dropout_p, seed))


OPERATORS: Final = MappingProxyType(
    {
        "aten._scaled_dot_product_cudnn_attention.default": scaled_dot_product,
        "aten._scaled_dot_product_cudnn_attention_backward.default": scaled_dot_product_backward,
        "aten._cudnn_attention_forward.default": forward,
        "aten._cudnn_attention_backward.default": scaled_dot_product_backward,
    }
)
