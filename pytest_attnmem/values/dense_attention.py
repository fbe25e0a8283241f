"""Attention and its gradient, as plain products over the whole matrix of scores.

The formulas are those of Dao et al., FlashAttention-2 (2023), sections 2.2 and 3.1: the gradient
takes the output and the logsumexp that it is given, which a program may have merged from blocks.
"""

from __future__ import annotations

from typing import NamedTuple

import torch


class Dropout(NamedTuple):
    """The weights that a call drops: the same for the forward and the backward of one seed."""

    p: float
    seed: int

    def factor(self, shape: torch.Size) -> torch.Tensor:
        """Returns 0 for each dropped weight and ``1 / (1 - p)`` for each kept one."""
        if self.p >= 1:
            return torch.zeros(shape)
        random = torch.Generator().manual_seed(self.seed)
        return (torch.rand(shape, generator=random) >= self.p) / (1 - self.p)


class Scores(NamedTuple):
    """The options of attention scores: the bias added to the products, and the hidden keys."""

    scale: float
    bias: torch.Tensor | None = None
    visible: torch.Tensor | None = None
    dropout: Dropout | None = None


def visible_band(
    rows: int, columns: int, left: int | None, right: int | None, *, from_the_end: bool
) -> torch.Tensor | None:
    """Returns which of ``columns`` keys each of ``rows`` queries sees, [N, M]; None if all.

    A query sees ``left`` keys before its own place and ``right`` after it, all of a side if that
    is None. Its place is its row; with ``from_the_end``, the last query stands at the last key.
    """
    if left is None and right is None:
        return None
    place = torch.arange(rows)[:, None] + (columns - rows if from_the_end else 0)
    distance = torch.arange(columns)[None, :] - place
    seen = torch.ones(rows, columns, dtype=torch.bool)
    if left is not None:
        seen &= distance >= -left
    if right is not None:
        seen &= distance <= right
    return seen


def attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, how: Scores
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the output [B, H, N, dv] in the query's dtype, and the logsumexp [B, H, N].

    The logsumexp is float32, float64 for float64; infinite where a query sees no key, and the
    output is 0 there. Keys and values may have fewer heads, which divide those of the queries.

    Args:
        query: [B, H, N, d].
        key: [B, Hkv, M, d].
        value: [B, Hkv, M, dv].
        how: the scale, and a bias and a mask that broadcast to [B, H, N, M].
    """
    heads = query.shape[1]
    scores = _scores(query, _for_each_head(key, heads), how)
    lse = scores.logsumexp(-1) if scores.shape[-1] else scores.new_full(scores.shape[:-1], -inf)
    lse = lse.masked_fill(lse == -inf, inf)
    weights = (scores - lse.unsqueeze(-1)).exp()
    if how.dropout:
        weights = weights * how.dropout.factor(weights.shape)
    return (weights @ _for_each_head(value, heads)).to(query.dtype), lse


class Gradients(NamedTuple):
    """The gradients of attention, each in its tensor's shape and dtype."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    bias: torch.Tensor | None


def attend_backward(
    grad: torch.Tensor,
    inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    out: torch.Tensor,
    lse: torch.Tensor,
    how: Scores,
) -> Gradients:
    """Returns the gradients of ``attend``, from its output and its logsumexp [B, H, N]."""
    query, key, value = inputs
    heads = query.shape[1]
    grad, wide_key = _wide(grad), _for_each_head(key, heads)
    weights = (_scores(query, wide_key, how) - _wide(lse).unsqueeze(-1)).exp()
    grad_weights = grad @ _for_each_head(value, heads).mT
    kept = weights
    if how.dropout:
        factor = how.dropout.factor(weights.shape)
        kept, grad_weights = weights * factor, grad_weights * factor
    grad_scores = weights * (grad_weights - (grad * _wide(out)).sum(-1, keepdim=True))
    return Gradients(
        (grad_scores @ wide_key * how.scale).to(query.dtype),
        _to_shared_heads(grad_scores.mT @ _wide(query) * how.scale, key),
        _to_shared_heads(kept.mT @ grad, value),
        None if how.bias is None else grad_scores.sum_to_size(how.bias.shape).to(how.bias.dtype),
    )


inf = float("inf")


def _scores(query: torch.Tensor, key: torch.Tensor, how: Scores) -> torch.Tensor:
    scores = _wide(query) @ key.mT * how.scale
    if how.bias is not None:
        scores = scores + _wide(how.bias)
    return scores if how.visible is None else scores.masked_fill(~how.visible, -inf)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dtype == torch.float64 else tensor.float()


def _for_each_head(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    return _wide(tensor).repeat_interleave(heads // max(tensor.shape[1], 1), dim=1)


def _to_shared_heads(grad: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    batch, heads, *rest = tensor.shape
    return grad.reshape(batch, heads, -1, *rest).sum(2).to(tensor.dtype)
