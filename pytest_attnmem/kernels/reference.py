"""Softmax attention in NumPy: no torch, no tricks; in float64 it is what the kernels are held to.

Vaswani et al., Attention Is All You Need, 2017 (arXiv:1706.03762), section 3.2.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def standard_attention(
    Q: ArrayLike,
    K: ArrayLike,
    V: ArrayLike,
    mask: ArrayLike | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """``softmax(scale * Q @ K.T) @ V`` → output [..., N, dv] and weights [..., N, M].

    Everything is computed in the dtype of the inputs; integers become float64.

    Args:
        Q: [..., N, d].
        K: [..., M, d].
        V: [..., M, dv].
        mask: Broadcastable to [..., N, M]: bool, or integers as such, true where a key may be
            seen; floats are added to the scores. A query that may see nothing gets zeros, as do
            its weights.
        causal: Query i sees only the keys 0 … i.
        scale: The factor of the scores, ``d ** -0.5`` by default.

    Raises:
        ValueError: the shapes do not fit together.
    """
    import numpy as np

    q, k, v = np.asarray(Q), np.asarray(K), np.asarray(V)
    dtype = np.result_type(q, k, v, np.float16)
    q, k, v = q.astype(dtype, copy=False), k.astype(dtype, copy=False), v.astype(dtype, copy=False)
    if min(q.ndim, k.ndim, v.ndim) < 2 or q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        raise ValueError(
            "Q, K and V must have shapes [..., N, d], [..., M, d] and [..., M, dv],"
            f" got {list(q.shape)}, {list(k.shape)} and {list(v.shape)}"
        )
    if scale is None:
        scale = q.shape[-1] ** -0.5
    scores = q @ k.swapaxes(-1, -2) * scale  # [..., N, M]
    if causal:
        seen = np.tri(*scores.shape[-2:], dtype=np.bool_)  # [N, M]
        scores = np.where(seen, scores, -np.inf)  # [..., N, M]
    if mask is not None:
        mask = np.asarray(mask)
        if np.issubdtype(mask.dtype, np.floating):
            scores = scores + mask.astype(dtype, copy=False)  # [..., N, M]
        else:
            scores = np.where(mask.astype(bool), scores, -np.inf)  # [..., N, M]
    largest = scores.max(-1, keepdims=True)  # [..., N, 1]
    largest = np.where(np.isneginf(largest), 0, largest)
    weights = np.exp(scores - largest)  # [..., N, M]
    total = weights.sum(-1, keepdims=True)  # [..., N, 1]
    weights /= np.where(total == 0, 1, total)
    return weights @ v, weights
