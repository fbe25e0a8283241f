"""References in NumPy for other attention than the standard one, and what their tests share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

#: Each type in one mode; ``test_models`` has every type in both, at other sizes.
MODES = pytest.mark.parametrize(
    ("dtype", "training"),
    [(torch.float64, False), (torch.bfloat16, True)],
    ids=["forward", "training"],
)
BOTH = pytest.mark.parametrize("training", [False, True], ids=["forward", "training"])


def noise(*shape: int, seed: int = 3) -> torch.Tensor:
    """Standard normal float64, the same each time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


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


def seen(pattern: Callable[[Any], Any], N: int, M: int, causal: bool) -> Any:
    """The keys that each query sees by a sparse kernel's pattern: bool [N, M]."""
    behind = np.arange(N)[:, None] - np.arange(M)
    known = behind >= 0 if causal else np.ones((N, M), dtype=bool)
    return known & pattern(behind)
