"""Softmax attention by chunks of queries and keys, of which a backward pass needs nothing kept."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import at_least_one, check_inputs
from .kernel import Kernel
from .memory_terms import GRADIENTS, HALF, LOSS, NARROWED, OUT, kernel_model, online_phases
from .online_softmax import Cut, online
from .recorded import blocks, load, recorded

SMALLEST = 128


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: Tensor | None = None,
    chunk_q: int | None = None,
    chunk_k: int | None = None,
) -> Tensor:
    """Softmax attention by √N x √M chunks, in the forward pass and in backward → [B, H, N, dv].

    The backward pass keeps q, k, v and the mask: each chunk of queries is computed again,
    its output, its largest scores and its sums as well. Within a chunk all is float32 for half
    inputs, and so are the gradients of k and v until they are complete.

    Args:
        q: [B, H, N, d].
        k: [B, H, M, d].
        v: [B, H, M, dv].
        causal: Query i sees only the keys 0 … i; chunks above the diagonal are skipped.
        scale: The factor of the scores, ``d ** -0.5`` by default.
        mask: Broadcastable to [B, H, N, M]: bool, True for a visible key, or of q's dtype, added
            to the scores. A query that sees no key gets zeros.
        chunk_q: Queries in a chunk; √N unless given, and not below 128, where starting a chunk
            takes longer than computing it.
        chunk_k: Keys in a chunk; √M unless given, and not below 128.

    Raises:
        ValueError: the inputs do not fit together, a chunk has no rows, or ``mask``
            requires a gradient.

    O(N·d) memory, O(N²·d) time: Rabe and Staats, 2021 (arXiv 2112.05682), Self-attention Does Not
    Need O(n²) Memory.
    """
    check_inputs(q, k, v, mask)
    at_least_one(chunk_q=chunk_q, chunk_k=chunk_k)
    (N, d), M = q.shape[2:], k.shape[2]
    cut = Cut(
        causal,
        d**-0.5 if scale is None else scale,
        _root(N) if chunk_q is None else chunk_q,
        _root(M) if chunk_k is None else chunk_k,
    )
    return recorded("chunked", _forward, _backward, cut, q, k, v, mask)


def _root(length: int) -> int:
    """Returns the square root of a length, rounded up, but at least the shortest chunk."""
    return max(SMALLEST, math.isqrt(max(length, 1) - 1) + 1)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, cut: Cut
) -> tuple[Tensor, tuple[()]]:
    (B, H, N, _), dv = q.shape, v.shape[3]
    tile = cut.tile(q, k, mask)
    out = q.new_empty(B, H, N, dv)  # [B, H, N, dv]
    for rows in blocks(N, cut.block_q):
        out_i = online(load(q, rows, tile.dtype), rows, k, v, tile, cut)[0]
        out[:, :, rows] = out_i.unflatten(0, (B, H))
        del out_i  # here and below: before the next ones are made
    return out, ()


def _backward(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, grad: Tensor, cut: Cut
) -> tuple[Tensor, Tensor, Tensor]:
    (B, H, N, _), M = q.shape, k.shape[2]
    tile = cut.tile(q, k, mask)
    slope = torch.empty_like(tile.buffer)  # [B·H, chunk_q, chunk_k]
    dq = q.new_empty(q.shape)  # [B, H, N, d]
    dk, dv = k.new_zeros(k.shape, dtype=tile.dtype), v.new_zeros(v.shape, dtype=tile.dtype)
    for rows in blocks(N, cut.block_q):
        q_i = load(q, rows, tile.dtype)
        out_i, lse_i = online(q_i, rows, k, v, tile, cut)
        grad_i = load(grad, rows, tile.dtype, copy=True)  # [B·H, n, dv]
        delta_i = out_i.mul_(grad_i).sum(-1, keepdim=True)  # [B·H, n, 1]
        del out_i
        dq_i = q_i.new_zeros(q_i.shape)  # [B·H, n, d]
        for cols in cut.columns(rows, M):
            k_j, v_j = load(k, cols, tile.dtype), load(v, cols, tile.dtype)
            p = tile.scores(q_i, k_j, rows, cols)
            p.sub_(lse_i).exp_()
            load(dv, cols, tile.dtype).baddbmm_(p.mT, grad_i)
            ds = slope[:, : p.shape[1], : p.shape[2]].baddbmm_(grad_i, v_j.mT, beta=0)
            ds.sub_(delta_i).mul_(p)
            dq_i.baddbmm_(ds, k_j, alpha=cut.scale)
            load(dk, cols, tile.dtype).baddbmm_(ds.mT, q_i, alpha=cut.scale)
            del k_j, v_j, p, ds
        dq[:, :, rows] = dq_i.unflatten(0, (B, H))
        del q_i, lse_i, grad_i, delta_i, dq_i
    del tile, slope  # makes room for dk and dv in the inputs' dtype
    dk = dk.to(q.dtype)
    return dq, dk, dv.to(q.dtype)


# A chunk that is not given, 0, is the root of the length.
_CHUNK_Q = f"min(N, chunk_q + max(0, 1 - chunk_q)*max({SMALLEST}, ceil(N^(1/2))))"
_CHUNK_K = f"min(M, chunk_k + max(0, 1 - chunk_k)*max({SMALLEST}, ceil(M^(1/2))))"
_TILE = f"B*H*{_CHUNK_Q}*{_CHUNK_K}*max(itemsize, 4)"
_ROW = f"B*H*{_CHUNK_Q}*max(itemsize, 4)"
_COLUMN = f"B*H*{_CHUNK_K}*max(itemsize, 4)"

_TILES = {
    "tile": _TILE,
    "hidden": f"causal*{_CHUNK_Q}*{_CHUNK_K}",
    "-inf": "min(1, mask)*max(itemsize, 4)",
}
_Q_I = {"q_i": f"{HALF}*{_ROW}*d"}


_FORWARD = online_phases("", {"out": OUT, **_TILES}, _ROW, _COLUMN)

_PAIR = {**GRADIENTS, "slope": _TILE}
_INNER = {**_PAIR, **_TILES, **_Q_I, "grad_i": f"{_ROW}*dv", "lse_i, delta_i": f"2*{_ROW}"}
_BACKWARD = (
    Phase("out.sum()", {"out": OUT, **LOSS}),
    *online_phases(" again", {**_PAIR, **_TILES}, _ROW, _COLUMN),
    Phase("delta_i", {**_INNER, "out_i": f"{_ROW}*dv"}),
    Phase("gradients", {**_INNER, "dq_i": f"{_ROW}*d", "k_j, v_j": f"{HALF}*{_COLUMN}*(d + dv)"}),
    *NARROWED,
)

_DEFAULTS = {"causal": 0, "mask": 0, "chunk_q": 0, "chunk_k": 0}
MODEL = kernel_model("chunked", _FORWARD, _FORWARD + _BACKWARD, _DEFAULTS)

KERNEL = Kernel("chunked", attention, MODEL, mask=True)
