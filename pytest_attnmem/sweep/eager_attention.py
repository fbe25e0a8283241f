"""Attention written out in eager PyTorch, as the reference benchmark runs it.

The caller holds the scores while softmax allocates three more matrices of their size, two of which
are kept for the backward pass; :mod:`pytest_attnmem.kernels.standard` works in place instead.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None) -> Tensor:
    """Returns ``softmax(q @ k.T / sqrt(d)) @ v``, [B, H, N, d].

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
    """Returns the softmax along the last dimension, computed step by step.

    Backward keeps the exponentials, their sums, and the int64 indices of the maxima.
    """
    shifted = scores - scores.max(dim=-1, keepdim=True).values  # [B, H, N, N]
    exponentials = shifted.exp()  # [B, H, N, N]
    return exponentials / exponentials.sum(dim=-1, keepdim=True)  # [B, H, N, N]


def causal_mask(N: int, device: str) -> Tensor:
    """Returns the causal mask, [1, N, N] float32: 1 where a query sees a key."""
    import torch

    return torch.tril(torch.ones(N, N, device=device)).unsqueeze(0)
