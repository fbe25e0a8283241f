"""Attention as eager programs write it out, and as the reference benchmark ran it.

Scores stay alive in the caller while softmax makes three more matrices of them, two of which are
kept for the backward pass: not in place, as :mod:`pytest_attnmem.kernels.standard` does it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """``softmax(q @ k.T / sqrt(d)) @ v`` → [B, H, N, d].

    Args:
        q: [B, H, N, d].
        k: [B, H, N, d].
        v: [B, H, N, d].
        mask: [1, N, N] of numbers, 0 where a key is hidden.
    """
    scores = q @ k.mT / math.sqrt(q.shape[-1])  # [B, H, N, N], twice for a moment
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -math.inf)  # the bool mask [1, N, N] is kept
    return softmax(scores) @ v


def softmax(scores: Tensor) -> Tensor:
    """Along the last dimension, step by step; exponentials and their sums are kept for backward.

    So are the places of the maxima, which are int64.
    """
    shifted = scores - scores.max(dim=-1, keepdim=True).values  # [B, H, N, N]
    exponentials = shifted.exp()  # [B, H, N, N]
    return exponentials / exponentials.sum(dim=-1, keepdim=True)  # [B, H, N, N]


def causal_mask(N: int, device: str) -> Tensor:
    """Ones where a key is seen, [1, N, N] float32."""
    import torch

    return torch.tril(torch.ones(N, N, device=device)).unsqueeze(0)
