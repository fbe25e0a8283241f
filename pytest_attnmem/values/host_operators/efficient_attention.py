"""The memory-efficient kernels of CUDA: ATen/native/transformers/cuda/attention{,_backward}.cu.

``custom_mask_type`` is 0 for no mask, 1 for a causal one from the first query and the first key, 2
from the last ones (mem_eff_attention/kernel_forward.h).
"""

from __future__ import annotations

from types import MappingProxyType, SimpleNamespace
from typing import Any, Final

import torch

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

#: The kernel writes the logsumexp of so many queries at once.
QUERIES_AT_ONCE = 32


def scaled_dot_product(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns what ``_scaled_dot_product_efficient_attention`` does, of [B, H, N, d]."""
    call.bias, call.custom_mask_type = call.attn_bias, int(call.is_causal)
    seed = drawn_seed(call.dropout_p)
    lengths = (call.query.shape[2], call.key.shape[2])
    out, found = attend(call.query, call.key, call.value, _how(call, lengths, seed))
    lse = _empty_lse(call, call.query.shape[0], call.query.shape[1], lengths[0])
    if call.compute_log_sumexp:
        lse[:, :, : lengths[0]].copy_(found)
    return out, lse, *_states(seed)


def scaled_dot_product_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of query, key, value and bias; None for those that are not asked."""
    bias = call.attn_bias if call.attn_bias is not None and call.attn_bias.numel() else None
    call.bias, call.custom_mask_type = bias, int(call.is_causal)
    lengths = (call.query.shape[2], call.key.shape[2])
    found = attend_backward(
        call.grad_out_,
        (call.query, call.key, call.value),
        call.out,
        call.logsumexp[:, :, : lengths[0]],
        _how(call, lengths, call.philox_seed),
    )
    bias_grad = found.bias if call.grad_input_mask[3] else None
    return found.query, found.key, found.value, bias_grad


def forward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns what ``_efficient_attention_forward`` does, of [B, N, H, d]."""
    seed = drawn_seed(call.dropout_p)
    query, key, value = inputs = call.query, call.key, call.value
    out = query.new_zeros(*query.shape[:-1], value.shape[-1])
    packed = call.cu_seqlens_q is not None
    batch = len(call.cu_seqlens_q) - 1 if packed else query.shape[0]
    longest_q = call.max_seqlen_q if packed else query.shape[1]
    longest_k = call.max_seqlen_k if packed else key.shape[1]
    lse = _empty_lse(call, batch, query.shape[2], longest_q)
    for part in parts(query, key, call.cu_seqlens_q, call.cu_seqlens_k, call.seqlen_k):
        found = part.attend(inputs, _how(call, part.lengths, seed, part), out)
        if call.compute_log_sumexp:
            _of_lse(lse, part, packed).copy_(found)
    return out, lse, *_states(seed), longest_q, longest_k


def backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of query, key, value and bias; None for that of no bias."""
    query, key, value = inputs = call.query, call.key, call.value
    grads = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    asks_bias = call.bias is not None and call.bias_requires_grad
    bias_grad = torch.zeros_like(call.bias) if asks_bias else None
    packed = call.cu_seqlens_q is not None
    for part in parts(query, key, call.cu_seqlens_q, call.cu_seqlens_k):
        how = _how(call, part.lengths, call.philox_seed, part)
        lse = _of_lse(call.logsumexp, part, packed)
        found = part.attend_backward(call.grad_out_, inputs, call.out, lse, how, grads)
        if bias_grad is not None and found.bias is not None:
            _of_bias(bias_grad, part).copy_(found.bias)
    return *grads, bias_grad


def _how(
    call: SimpleNamespace,
    lengths: tuple[int, int],
    seed: torch.Tensor | int,
    part: Part | None = None,
) -> Scores:
    scale = call.query.shape[-1] ** -0.5 if call.scale is None else call.scale
    window = getattr(call, "window_size", None) or 0
    visible = visible_band(
        *lengths,
        window - 1 if window > 0 else None,
        0 if call.custom_mask_type else None,
        from_the_end=call.custom_mask_type == 2,
    )
    bias = call.bias
    if part is not None and bias is not None:
        bias = _of_bias(bias, part)
    return Scores(scale, bias, visible, dropout(call.dropout_p, seed, part))


def _of_bias(bias: torch.Tensor, part: Part) -> torch.Tensor:
    rows, columns = part.lengths
    return bias[part.batch, :, :rows, :columns]


def _empty_lse(call: SimpleNamespace, batch: int, heads: int, queries: int) -> torch.Tensor:
    """Returns [batch, heads, queries rounded up], infinite; without queries if not asked for."""
    padded = -(-queries // QUERIES_AT_ONCE) * QUERIES_AT_ONCE if call.compute_log_sumexp else 0
    return torch.full((batch, heads, padded), float("inf"), dtype=torch.float32)


def _of_lse(lse: torch.Tensor, part: Part, packed: bool) -> torch.Tensor:
    batch = slice(part.place, part.place + 1) if packed else part.batch
    return lse[batch, :, : part.lengths[0]]


def _states(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the seed and the offset of random numbers, []."""
    return torch.tensor(seed), torch.tensor(0)


OPERATORS: Final = MappingProxyType(
    {
        "aten._scaled_dot_product_efficient_attention.default": scaled_dot_product,
        "aten._scaled_dot_product_efficient_attention_backward.default": (
            scaled_dot_product_backward
        ),
        "aten._efficient_attention_forward.default": forward,
        "aten._efficient_attention_backward.default": backward,
    }
)
