"""cuDNN's attention: ATen/native/transformers/cuda/attention.cu.

A causal mask begins at the first query and the first key; with the used keys of a cache
(``seqused_k``) it ends at the last ones (torch/nn/attention/varlen.py).
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

from ...errors import CannotCompute
from ..dense_attention import (
    Part,
    Scores,
    attend,
    attend_backward,
    drawn_seed,
    dropout,
    parts,
    visible_band,
)


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
    """Returns the gradients of query, key and value, [B, H, N, d] or packed [T, H, d]."""
    if call.query.dim() == 3:
        return _packed_backward(call)
    lengths = (call.query.shape[2], call.key.shape[2])
    how = _how(call, lengths, call.philox_seed)
    inputs = (call.query, call.key, call.value)
    return attend_backward(call.grad_out, inputs, call.out, call.logsumexp.squeeze(-1), how)[:3]


def forward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns what ``_cudnn_attention_forward`` does, of [B, H, N, d] or packed [T, H, d].

    The logsumexp of packed sequences is [H, T], and [T, H, 1] in PyTorch 2.13, whose operator has
    no caches of keys.
    """
    if call.query.dim() == 4:
        return scaled_dot_product(call)
    seed = drawn_seed(call.dropout_p)
    query, _, value = inputs = call.query, call.key, call.value
    out = query.new_zeros(*query.shape[:-1], value.shape[-1])
    lse = query.new_full((1, query.shape[1], query.shape[0]), float("inf"), dtype=torch.float32)
    for part in _parts(call):
        found = part.attend(inputs, _how(call, part.lengths, seed, part), out)
        lse[:, :, part.queries] = found.float()
    packed = lse[0] if hasattr(call, "seqused_k") else lse[0].T.unsqueeze(-1).contiguous()
    ends = (call.cum_seq_q, call.cum_seq_k)
    return out, packed, *ends, call.max_q, call.max_k, torch.tensor(seed), torch.tensor(0), None


def forward_into(call: SimpleNamespace) -> torch.Tensor:
    """Writes the output into ``out`` and returns the logsumexp."""
    call.attn_bias, call.dropout_p = None, 0.0
    out, lse, *_ = forward(call)
    call.out.copy_(out)
    return torch.as_tensor(lse)


def _packed_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    query, key, value = inputs = call.query, call.key, call.value
    grads = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    lse = call.logsumexp if call.logsumexp.dim() == 2 else call.logsumexp.squeeze(-1).T
    for part in _parts(call):
        how, own = _how(call, part.lengths, call.philox_seed, part), lse[None, :, part.queries]
        part.attend_backward(call.grad_out, inputs, call.out, own, how, grads)
    return grads


def _parts(call: SimpleNamespace) -> list[Part]:
    if getattr(call, "block_table", None) is not None or call.cum_seq_k is None:
        raise CannotCompute("a cache of pages (block_table) has no equivalent")
    if call.attn_bias is not None:
        raise CannotCompute("a mask of packed sequences (attn_bias) has no equivalent")
    used = getattr(call, "seqused_k", None)
    return parts(call.query, call.key, call.cum_seq_q, call.cum_seq_k, used)


def _how(
    call: SimpleNamespace,
    lengths: tuple[int, int],
    seed: torch.Tensor | int,
    part: Part | None = None,
) -> Scores:
    scale = call.query.shape[-1] ** -0.5 if call.scale is None else call.scale
    bias, visible = call.attn_bias, None
    if bias is not None and bias.dtype == torch.bool:
        bias, visible = None, bias
    if call.is_causal:
        cached = getattr(call, "seqused_k", None) is not None
        causal = visible_band(*lengths, None, 0, from_the_end=cached)
        visible = causal if visible is None or causal is None else visible & causal
    return Scores(scale, bias, visible, dropout(call.dropout_p, seed, part))


OPERATORS: Final = MappingProxyType(
    {
        "aten._scaled_dot_product_cudnn_attention.default": scaled_dot_product,
        "aten._scaled_dot_product_cudnn_attention_backward.default": scaled_dot_product_backward,
        "aten._cudnn_attention_forward.default": forward,
        "aten._cudnn_attention_forward_no_dropout_inplace.default": forward_into,
        "aten._cudnn_attention_backward.default": scaled_dot_product_backward,
    }
)
