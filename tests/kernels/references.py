"""What the kernels that are not standard attention are held to: NumPy, no tricks."""

from __future__ import annotations

import math
from typing import Any

import numpy as np


def linear_reference(q: Any, k: Any, v: Any, causal: bool, eps: float = 1e-6) -> Any:
    """Linear attention in float64, by its weights: q [B, H, N, d], k [B, H, M, d], v [B, H, M, dv].

    ``out = w @ v / (w.sum() + eps)`` with ``w = φ(q)·φ(k)`` and φ = elu + 1; with ``causal`` a
    query's weights for later keys are 0.
    """
    q, k, v = (np.asarray(x, dtype=np.float64) for x in (q, k, v))
    weights = _features(q) @ _features(k).swapaxes(-1, -2)  # [B, H, N, M]
    if causal:
        weights = np.tril(weights)
    return weights @ v / (weights.sum(-1, keepdims=True) + eps)  # [B, H, N, dv]


def _features(x: Any) -> Any:
    return np.where(x > 0, x + 1, np.exp(np.minimum(x, 0)))


def seen(kernel: str, N: int, M: int, causal: bool) -> Any:
    """What a sparse kernel sees unless told otherwise: bool [N, M]."""
    before = np.arange(N)[:, None] - np.arange(M)  # how far a key is behind a query
    known = before >= 0 if causal else np.ones((N, M), dtype=bool)
    return known & PATTERNS[kernel](before)


def window(before: Any, width: int = 256) -> Any:
    """Keys less than ``width`` away."""
    return abs(before) < width


def strided(before: Any, stride: int | None = None) -> Any:
    """Keys less than ``stride`` away, √N unless given, and those a multiple of it away."""
    stride = stride or math.ceil(math.sqrt(len(before)))
    return (abs(before) < stride) | (before % stride == 0)


PATTERNS = {"sliding-window": window, "strided": strided}
