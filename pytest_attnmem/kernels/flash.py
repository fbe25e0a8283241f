"""FlashAttention-2 in plain PyTorch: tiles and an online softmax, never the N×M scores.

Query heads may share heads of keys and values, which stay as few: grouped-query attention.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import at_least_one, check_inputs
from .kernel import Kernel
from .memory_terms import HALF, LOSS, kernel_model, online_phases
from .online_softmax import Cut, members, online
from .recorded import blocks, load, recorded

BLOCK_Q, BLOCK_K = 128, 128


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: Tensor | None = None,
    block_q: int = BLOCK_Q,
    block_k: int = BLOCK_K,
) -> Tensor:
    """Softmax attention by tiles, H/Hkv query heads to a key head → [B, H, N, dv].

    A tile has one query head of each group: only q, the output, the logarithm of each row's sum of
    exponentials, [B, H, N], and their gradients have H heads. The backward pass keeps q, k, v, the
    mask, the output and the logarithms, and sums the gradients of k and v over each group. Tiles,
    the logarithms and dq until it is complete are float32 for half inputs.

    Args:
        q: [B, H, N, d].
        k: [B, Hkv, M, d], Hkv a divisor of H; of one head, this is multi-query attention. Query
            head h sees the key head ``h // (H // Hkv)``.
        v: [B, Hkv, M, dv].
        causal: Query i sees only the keys 0 … i; tiles above the diagonal are skipped.
        scale: The factor of the scores, ``d ** -0.5`` by default.
        mask: Broadcastable to [B, H, N, M]: bool, True for a visible key, or of q's dtype, added
            to the scores. A query that sees no key gets zeros.
        block_q: Queries in a tile.
        block_k: Keys in a tile.

    Raises:
        ValueError: the inputs do not fit together, a block has no rows, or ``mask``
            requires a gradient.

    O(N·d) memory, O(N²·d) time: Dao, 2023 (arXiv 2307.08691), FlashAttention-2: Faster Attention
    with Better Parallelism and Work Partitioning. Shared heads are of Ainslie et al., 2023 (arXiv
    2305.13245), GQA: Training Generalized Multi-Query Transformer Models.
    """
    check_inputs(q, k, v, mask, grouped=True)
    at_least_one(block_q=block_q, block_k=block_k)
    cut = Cut(causal, q.shape[3] ** -0.5 if scale is None else scale, block_q, block_k)
    return recorded("flash", _forward, _backward, cut, q, k, v, mask)


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    out: Tensor,
    lse: Tensor,
    grad: Tensor,
    cut: Cut,
) -> tuple[Tensor, Tensor, Tensor]:
    (B, Hkv, M), N = k.shape[:3], q.shape[2]
    tile, dtype = cut.tile(q, k, mask), lse.dtype
    slope = torch.empty_like(tile.buffer)  # [B·Hkv, block_q, block_k]
    delta = torch.empty_like(lse)  # [B, H, N]
    dq = q.new_zeros(q.shape, dtype=dtype)  # [B, H, N, d]
    dk, dv = k.new_empty(k.shape), v.new_empty(v.shape)  # [B, Hkv, M, d], [B, Hkv, M, dv]
    heads = [members(x, Hkv) for x in (q, out, lse, grad, delta, dq)]
    # Each part is one query head of every group, and one block of its rows.
    parts = [
        (g, *x, rows)
        for g, x in enumerate(zip(*heads, strict=True))
        for rows in blocks(N, cut.block_q)
    ]
    for _, _, out_g, _, grad_g, delta_g, _, rows in parts:
        grad_i = load(grad_g, rows, dtype, copy=True).mul_(load(out_g, rows, dtype))
        delta_g[:, :, rows] = grad_i.sum(-1).unflatten(0, (B, Hkv))  # [B·Hkv, n]
        del grad_i
    for cols in blocks(M, cut.block_k):
        k_j, v_j = load(k, cols, dtype), load(v, cols, dtype)
        dk_j, dv_j = torch.zeros_like(k_j), torch.zeros_like(v_j)  # [B·Hkv, m, d], […, dv]
        for g, q_g, _, lse_g, grad_g, delta_g, dq_g, rows in parts:
            if cut.skips(rows, cols):
                continue
            q_i, grad_i = load(q_g, rows, dtype), load(grad_g, rows, dtype, copy=True)
            p = tile.scores(q_i, k_j, rows, cols, g)
            p.sub_(load(lse_g, rows, dtype).unsqueeze(-1)).exp_()
            dv_j.baddbmm_(p.mT, grad_i)
            ds = slope[:, : p.shape[1], : p.shape[2]].baddbmm_(grad_i, v_j.mT, beta=0)
            ds.sub_(load(delta_g, rows, dtype).unsqueeze(-1)).mul_(p)
            load(dq_g, rows, dtype).baddbmm_(ds, k_j, alpha=cut.scale)
            dk_j.baddbmm_(ds.mT, q_i, alpha=cut.scale)
            del q_i, grad_i, p, ds
        dk[:, :, cols] = dk_j.unflatten(0, (B, Hkv))
        dv[:, :, cols] = dv_j.unflatten(0, (B, Hkv))
        del k_j, v_j, dk_j, dv_j
    del tile, slope  # makes room for dq in the inputs' dtype
    return dq.to(q.dtype), dk, dv


def _forward(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, cut: Cut
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    (B, H, N, _), (Hkv, dv) = q.shape, v.shape[1::2]
    tile = cut.tile(q, k, mask)
    out = q.new_empty(B, H, N, dv)  # [B, H, N, dv]
    lse = q.new_empty(B, H, N, dtype=tile.dtype)  # [B, H, N]
    q_heads, out_heads, lse_heads = (members(x, Hkv) for x in (q, out, lse))
    for g, q_g in enumerate(q_heads):
        for rows in blocks(N, cut.block_q):
            out_i, lse_i = online(load(q_g, rows, tile.dtype), rows, k, v, tile, cut, g)
            out_heads[g][:, :, rows] = out_i.unflatten(0, (B, Hkv))
            lse_heads[g][:, :, rows] = lse_i.unflatten(0, (B, Hkv)).squeeze(-1)
            del out_i, lse_i  # here and below: before the next ones are made
    return out, (out, lse)


_TILE = "B*Hkv*min(block_q, N)*min(block_k, M)*max(itemsize, 4)"
_ROW = "B*Hkv*min(block_q, N)*max(itemsize, 4)"
_COLUMN = "B*Hkv*min(block_k, M)*max(itemsize, 4)"

_KEPT = {"out": "B*H*N*dv*itemsize", "lse": "B*H*N*max(itemsize, 4)"}
_TILES = {
    **_KEPT,
    "tile": _TILE,
    "hidden": "causal*min(block_q, N)*min(block_k, M)",
    "-inf": "min(1, mask)*max(itemsize, 4)",
}
_FORWARD = online_phases("", _TILES, _ROW, _COLUMN)

_GRADS = {
    "delta": "B*H*N*max(itemsize, 4)",
    "dq": "B*H*N*d*max(itemsize, 4)",
    "dk": "B*Hkv*M*d*itemsize",
    "dv": "B*Hkv*M*dv*itemsize",
}
_PAIR = {**LOSS, **_TILES, **_GRADS, "slope": _TILE, "grad_i": f"{_ROW}*dv"}
_BACKWARD = (
    Phase("delta", {**_PAIR, "out_i or its sum": f"{_ROW}*max(1, {HALF}*dv)"}),
    Phase(
        "gradients",
        {
            **_PAIR,
            "dk_j, dv_j": f"{_COLUMN}*(d + dv)",
            "q_i, k_j, v_j": f"{HALF}*({_ROW}*d + {_COLUMN}*(d + dv))",
        },
    ),
    Phase("dq.to(q.dtype)", {**LOSS, **_KEPT, **_GRADS, "result": f"{HALF}*B*H*N*d*itemsize"}),
)

_DEFAULTS = {"causal": 0, "mask": 0, "block_q": BLOCK_Q, "block_k": BLOCK_K}
MODEL = kernel_model("flash", _FORWARD, _FORWARD + _BACKWARD, _DEFAULTS)

KERNEL = Kernel("flash", attention, MODEL, mask=True, gqa=True)
