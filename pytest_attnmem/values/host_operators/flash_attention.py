"""The flash kernels of CUDA: ATen/native/transformers/cuda/attention.cu, flash_attn/flash_api.cpp.

Causal masks and windows are aligned to the last query and the last key.
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
    """Returns what ``_scaled_dot_product_flash_attention`` does, of [B, H, N, d]."""
    seed = drawn_seed(call.dropout_p)
    lengths = (call.query.shape[2], call.key.shape[2])
    out, lse = attend(call.query, call.key, call.value, _how(call, lengths, seed))
    return (out, lse.float(), None, None, *lengths, *_states(seed), call.query.new_empty(0))


def scaled_dot_product_backward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns the gradients of query, key and value, [B, H, N, d]."""
    lengths = (call.query.shape[2], call.key.shape[2])
    how = _how(call, lengths, call.philox_seed)
    inputs = (call.query, call.key, call.value)
    return attend_backward(call.grad_out, inputs, call.out, call.logsumexp, how)[:3]


def forward(call: SimpleNamespace) -> tuple[Any, ...]:
    """Returns what ``_flash_attention_forward`` does, of [B, N, H, d] or packed [T, H, d]."""
    if getattr(call, "block_table", None) is not None:
        raise CannotCompute("a cache of pages (block_table) has no equivalent")
    seed = drawn_seed(call.dropout_p)
    query, key, value = inputs = call.query, call.key, call.value
    out = query.new_zeros(*query.shape[:-1], value.shape[-1])
    lse = query.new_full(_lse_shape(query), float("inf"), dtype=torch.float32)
    for part in parts(query, key, call.cum_seq_q, call.cum_seq_k, call.seqused_k):
        found = part.attend(inputs, _how(call, part.lengths, seed, part), out)
        _of_lse(lse, part).copy_(found)
    return out, lse, *_states(seed), query.new_empty(0)


def forward_into(call: SimpleNamespace) -> torch.Tensor:
    """Writes the output into ``out`` and returns the logsumexp."""
    call.dropout_p, call.return_debug_mask = 0.0, False
    out, lse, *_ = forward(call)
    call.out.copy_(out)
    return torch.as_tensor(lse)


def backward(call: SimpleNamespace) -> tuple[torch.Tensor, ...]:
    """Returns the gradients of query, key and value, in their shapes."""
    query, key, value = inputs = call.query, call.key, call.value
    grads = torch.zeros_like(query), torch.zeros_like(key), torch.zeros_like(value)
    packed = query.dim() == 3
    ends = (call.cum_seq_q, call.cum_seq_k) if packed else (None, None)
    for part in parts(query, key, *ends):
        how = _how(call, part.lengths, call.rng_state, part)
        lse = _of_lse(call.logsumexp, part)
        part.attend_backward(call.grad_out, inputs, call.out, lse, how, grads)
    return grads


def _how(
    call: SimpleNamespace,
    lengths: tuple[int, int],
    seed: torch.Tensor | int,
    part: Part | None = None,
) -> Scores:
    scale = call.query.shape[-1] ** -0.5 if call.scale is None else call.scale
    left = _window(getattr(call, "window_size_left", None))
    right = 0 if call.is_causal else _window(getattr(call, "window_size_right", None))
    visible = visible_band(*lengths, left, right, from_the_end=True)
    dropped = dropout(call.dropout_p, seed, part)
    return Scores(scale, _alibi(call, lengths, part), visible, dropped)


def _window(size: int | None) -> int | None:
    return None if size is None or size < 0 else size


def _alibi(
    call: SimpleNamespace, lengths: tuple[int, int], part: Part | None
) -> torch.Tensor | None:
    """Returns the linear bias [b or 1, H, N, M] of flash_attn's alibi.h; None without slopes."""
    slopes = getattr(call, "alibi_slopes", None)
    if slopes is None or part is None:
        return None
    rows, columns = lengths
    if slopes.dim() == 2:  # [B, H]: one row a sequence
        slopes = slopes[part.batch] if call.query.dim() == 4 else slopes[part.place][None]
    else:
        slopes = slopes[None]
    keys = torch.arange(columns)[None, :]
    distance = (torch.arange(rows)[:, None] + columns - rows - keys).abs()
    bias = keys if call.is_causal else -distance
    return torch.as_tensor(slopes[:, :, None, None] * bias)


def _lse_shape(query: torch.Tensor) -> list[int]:
    """Returns [B, H, N], or [H, T] for packed sequences."""
    *front, heads, _ = query.shape
    return [*front[:-1], heads, front[-1]]


def _of_lse(lse: torch.Tensor, part: Part) -> torch.Tensor:
    return (lse if lse.dim() == 3 else lse[None])[part.batch, :, part.queries]


def _states(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the state of random numbers, [2], and the unused one, []."""
    return torch.tensor([seed, 0], dtype=torch.uint64), torch.empty((), dtype=torch.uint64)


OPERATORS: Final = MappingProxyType(
    {
        "aten._scaled_dot_product_flash_attention.default": scaled_dot_product,
        "aten._scaled_dot_product_flash_attention_backward.default": scaled_dot_product_backward,
        "aten._flash_attention_forward.default": forward,
        "aten._flash_attention_forward_no_dropout_inplace.default": forward_into,
        "aten._flash_attention_backward.default": backward,
    }
)
