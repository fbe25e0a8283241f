"""Linear attention under the names of the notebook; the bundled kernels compute it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def linear_attention_bidir(q: Tensor, k: Tensor, v: Tensor, eps: float = 1e-6) -> Tensor:
    """Returns linear attention of every query to every key [B, H, N, dv]: the kernel ``linear``.

    Raises:
        ValueError: q [B, H, N, d], k [B, H, M, d] and v [B, H, M, dv] do not fit together.
    """
    from ..kernels import linear

    return linear.attention(q, k, v, eps=eps)


def linear_attention_causal(q: Tensor, k: Tensor, v: Tensor, eps: float = 1e-6) -> Tensor:
    """Returns linear attention of query i to keys 0 … i [B, H, N, dv]: ``linear-causal``.

    Raises:
        ValueError: q [B, H, N, d], k [B, H, M, d] and v [B, H, M, dv] do not fit together.
    """
    from ..kernels import linear_causal

    return linear_causal.attention(q, k, v, eps=eps)
