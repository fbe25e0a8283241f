"""Attention and its gradient, as plain products over the whole matrix of scores.

The formulas are those of Dao et al., FlashAttention-2 (2023), sections 2.2 and 3.1: the gradient
takes the output and the logsumexp that it is given, which a program may have merged from blocks.
The sequences of a call are packed one after another, or a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import torch

from .wide_dtype import wide

#: Query, key and value, or their gradients.
Inputs = tuple[torch.Tensor, torch.Tensor, torch.Tensor]


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
    inputs: Inputs,
    out: torch.Tensor,
    lse: torch.Tensor,
    how: Scores,
) -> Gradients:
    """Returns the gradients of ``attend``, from its output and its logsumexp [B, H, N]."""
    query, key, value = inputs
    heads = query.shape[1]
    grad, wide_key = wide(grad), _for_each_head(key, heads)
    weights = (_scores(query, wide_key, how) - wide(lse).unsqueeze(-1)).exp()
    grad_weights = grad @ _for_each_head(value, heads).mT
    kept = weights
    if how.dropout:
        factor = how.dropout.factor(weights.shape)
        kept, grad_weights = weights * factor, grad_weights * factor
    grad_scores = weights * (grad_weights - (grad * wide(out)).sum(-1, keepdim=True))
    return Gradients(
        (grad_scores @ wide_key * how.scale).to(query.dtype),
        _to_shared_heads(grad_scores.mT @ wide(query) * how.scale, key),
        _to_shared_heads(kept.mT @ grad, value),
        None if how.bias is None else grad_scores.sum_to_size(how.bias.shape).to(how.bias.dtype),
    )


inf = float("inf")


def _scores(query: torch.Tensor, key: torch.Tensor, how: Scores) -> torch.Tensor:
    scores = wide(query) @ key.mT * how.scale
    if how.bias is not None:
        scores = scores + wide(how.bias)
    return scores if how.visible is None else scores.masked_fill(~how.visible, -inf)


def _for_each_head(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    return wide(tensor).repeat_interleave(heads // max(tensor.shape[1], 1), dim=1)


def _to_shared_heads(grad: torch.Tensor, tensor: torch.Tensor) -> torch.Tensor:
    batch, heads, *rest = tensor.shape
    return grad.reshape(batch, heads, -1, *rest).sum(2).to(tensor.dtype)


def drawn_seed(p: float) -> int:
    """Returns a seed of the CPU's default generator; 0, without a draw, if nothing is dropped."""
    return int(torch.randint(2**62, ())) if p > 0 else 0


class Part(NamedTuple):
    """Sequences of one length: their places in the batch, and their rows of queries and keys."""

    place: int
    batch: slice
    queries: slice
    keys: slice

    def of_queries(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the view [b, H, n, d] of a tensor [B, N, H, d] or packed [T, H, d]."""
        return _batched(tensor)[self.batch, self.queries].transpose(1, 2)

    def of_keys(self, tensor: torch.Tensor) -> torch.Tensor:
        """Returns the view [b, H, m, d] of a tensor [B, M, H, d] or packed [T, H, d]."""
        return _batched(tensor)[self.batch, self.keys].transpose(1, 2)

    def attend(self, inputs: Inputs, how: Scores, out: torch.Tensor) -> torch.Tensor:
        """Writes the output of these sequences into ``out``; returns their logsumexp [b, H, n]."""
        query, key, value = inputs
        found, lse = attend(self.of_queries(query), self.of_keys(key), self.of_keys(value), how)
        self.of_queries(out).copy_(found)
        return lse

    def attend_backward(
        self,
        grad: torch.Tensor,
        inputs: Inputs,
        out: torch.Tensor,
        lse: torch.Tensor,
        how: Scores,
        into: Inputs,
    ) -> Gradients:
        """Writes the gradients of these sequences' inputs; ``lse`` is that of them alone."""
        query, key, value = inputs
        own = self.of_queries(query), self.of_keys(key), self.of_keys(value)
        found = attend_backward(self.of_queries(grad), own, self.of_queries(out), lse, how)
        self.of_queries(into[0]).copy_(found.query)
        self.of_keys(into[1]).copy_(found.key)
        self.of_keys(into[2]).copy_(found.value)
        return found

    @property
    def lengths(self) -> tuple[int, int]:
        """Returns the queries and the keys of each sequence."""
        return self.queries.stop - self.queries.start, self.keys.stop - self.keys.start


def dropout(p: float, seed: torch.Tensor | int, part: Part | None = None) -> Dropout | None:
    """Returns the dropout of a seed, or of a tensor that begins with it; None for ``p`` 0.

    Each packed sequence drops other weights.
    """
    if p <= 0:
        return None
    first = seed if isinstance(seed, int) else int(seed.reshape(-1)[0])
    return Dropout(p, first + (part.place if part else 0))


def parts(
    query: torch.Tensor,
    key: torch.Tensor,
    ends_q: torch.Tensor | None,
    ends_k: torch.Tensor | None,
    used_keys: torch.Tensor | None = None,
) -> list[Part]:
    """Returns the sequences of a call.

    Args:
        query: [B, N, H, d] or packed [T, H, d].
        key: the same of keys.
        ends_q: where each packed sequence of queries begins, and the last ends, [sequences + 1].
        ends_k: the same of keys.
        used_keys: how many keys of each sequence are used, [sequences]; all if None.
    """
    whole = slice(None)
    used = None if used_keys is None else used_keys.tolist()
    if ends_q is None or ends_k is None:
        rows, columns = slice(0, query.shape[1]), slice(0, key.shape[1])
        if used is None:
            return [Part(0, whole, rows, columns)]
        return [Part(i, slice(i, i + 1), rows, slice(0, keys)) for i, keys in enumerate(used)]
    of_queries, of_keys = _spans(ends_q.tolist()), _spans(ends_k.tolist())
    if used is not None:
        of_keys = [slice(span.start, span.start + n) for span, n in zip(of_keys, used, strict=True)]
    return [
        Part(place, whole, rows, columns)
        for place, (rows, columns) in enumerate(zip(of_queries, of_keys, strict=True))
    ]


def _spans(ends: Sequence[int]) -> list[slice]:
    return [slice(start, end) for start, end in pairwise(ends)]


def _batched(tensor: torch.Tensor) -> torch.Tensor:
    return tensor if tensor.dim() == 4 else tensor.unsqueeze(0)
