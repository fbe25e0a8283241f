"""Ring attention: each rank keeps its queries, and keys and values go round from rank to rank."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import at_least_one, check_inputs
from .memory_terms import HALF, LOSS, WIDE, kernel_model
from .online_softmax import Cut, new_sums, take_in
from .recorded import blocks, load, recorded
from .ring_ranks import Ranks, finish, join

if TYPE_CHECKING:
    from torch.distributed import ProcessGroup

BLOCK_Q, BLOCK_K = 128, 128


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    group: ProcessGroup | None = None,
    block_q: int = BLOCK_Q,
    block_k: int = BLOCK_K,
) -> Tensor:
    """Softmax attention of this rank's queries to all ranks' keys → [B, H, N/R, dv].

    The sequence is cut into R equal parts, rank r of the group having the r-th of q, k and v. Each
    holds O(N/R·d) bytes: its output, the keys and values at hand and those on their way, exchanged
    while the former are worked on by tiles of ``block_q`` by ``block_k``. In the backward pass they
    go round once more, and their gradients with them. For it a rank keeps its q, k, v, output and
    the logarithm of each row's sum of exponentials. Sums are float32 for half inputs.

    Every rank of the group must call it, forward and backward, with the same options.

    Args:
        q: [B, H, N/R, d], one R-th of N queries.
        k: [B, H, M/R, d], one R-th of M keys.
        v: [B, H, M/R, dv].
        causal: Query i of all N sees the keys 0 … i of all M. Later ranks then have more to do.
        scale: The factor of the scores, ``d ** -0.5`` by default.
        group: The ranks; all there are, unless given.
        block_q: Queries in a tile.
        block_k: Keys in a tile.

    Raises:
        ValueError: the inputs do not fit together or differ in size between ranks, or a block has
            no rows.
        RuntimeError: there is no process group, or this process is not in it.

    O(N/R·d) memory, O(N²/R·d) time: Liu et al., 2023 (arXiv 2310.01889), Ring Attention with
    Blockwise Transformers for Near-Infinite Context.
    """
    check_inputs(q, k, v)
    at_least_one(block_q=block_q, block_k=block_k)
    ring = join(group)
    ring.check_sizes(q, k, v)
    scale = q.shape[3] ** -0.5 if scale is None else scale
    cut = Cut(causal, scale, block_q, block_k)
    return recorded("ring", _forward, _backward, (cut, ring), q, k, v)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, how: tuple[Cut, Ranks]
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    cut, ring = how
    (B, H, n, _), dv = q.shape, v.shape[3]
    tile = cut.tile(q, k)
    acc = tile.buffer.new_zeros(B * H, n, dv)  # [B·H, n, dv]
    row_max, row_sum = new_sums(acc)  # [B·H, n, 1]
    for owner, (k_j, v_j) in ring.circulate(k, v):
        for rows, places, cols in _tiles(cut, ring, owner, q, k):
            q_i = load(q, rows, acc.dtype)
            p = tile.scores(q_i, load(k_j, cols, acc.dtype), places, cols)
            del q_i
            take_in(p, v_j, cols, acc[:, rows], row_max[:, rows], row_sum[:, rows])
            del p
        del k_j, v_j
    del tile
    acc.div_(row_sum)
    lse = row_max.add_(row_sum.log_()).view(B, H, n)
    del row_sum
    out = acc.view(B, H, n, dv).to(q.dtype)
    return out, (out, lse)


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    lse: Tensor,
    grad: Tensor,
    how: tuple[Cut, Ranks],
) -> tuple[Tensor, Tensor, Tensor]:
    cut, ring = how
    B, H, n, _ = q.shape
    tile = cut.tile(q, k)
    slope = torch.empty_like(tile.buffer)  # [B·H, block_q, block_k]
    dtype = slope.dtype
    delta = torch.empty_like(lse)  # [B, H, n]
    for rows in blocks(n, cut.block_q):
        grad_i = load(grad, rows, dtype, copy=True)  # [B·H, bq, dv]
        grad_i.mul_(load(out, rows, dtype))
        delta[:, :, rows] = grad_i.sum(-1).unflatten(0, (B, H))  # [B·H, bq]
        del grad_i
    dq = q.new_zeros(q.shape, dtype=dtype)  # [B, H, n, d]
    # The gradients of the keys and values at hand, as they come from the ranks before.
    dkv = [x.new_zeros(x.shape, dtype=dtype) for x in (k, v)]  # [B, H, m, d], [B, H, m, dv]
    spare = [torch.empty_like(x) for x in dkv if ring.size > 1]
    for owner, (k_j, v_j) in ring.circulate(k, v):
        for rows, places, cols in _tiles(cut, ring, owner, q, k):
            q_i, grad_i = load(q, rows, dtype), load(grad, rows, dtype, copy=True)
            p = tile.scores(q_i, load(k_j, cols, dtype), places, cols)
            p.sub_(load(lse, rows, dtype).unsqueeze(-1)).exp_()
            load(dkv[1], cols, dtype).baddbmm_(p.mT, grad_i)
            ds = slope[:, : p.shape[1], : p.shape[2]]
            ds.baddbmm_(grad_i, load(v_j, cols, dtype).mT, beta=0)
            ds.sub_(load(delta, rows, dtype).unsqueeze(-1)).mul_(p)
            load(dq, rows, dtype).baddbmm_(ds, load(k_j, cols, dtype), alpha=cut.scale)
            load(dkv[0], cols, dtype).baddbmm_(ds.mT, q_i, alpha=cut.scale)
            del q_i, grad_i, p, ds
        del k_j, v_j
        if ring.size > 1:  # the last time, they come home
            finish(ring.exchange(dkv, spare))
            dkv, spare = spare, dkv
    del tile, slope, spare  # room for the gradients in the inputs' dtype
    dk, dv = (dkv.pop(0).to(q.dtype) for _ in range(2))
    return dq.to(q.dtype), dk, dv


def _tiles(
    cut: Cut, ring: Ranks, owner: int, q: Tensor, k: Tensor
) -> Iterator[tuple[slice, slice, slice]]:
    """Yields the tiles with visible keys of ``owner``: rows, their places among them, columns."""
    n, m = q.shape[2], k.shape[2]
    ahead = ring.rank * n - owner * m
    for rows in blocks(n, cut.block_q):
        places = slice(ahead + rows.start, ahead + rows.stop)
        for cols in cut.columns(places, m):
            yield rows, places, cols


_ROW, _COLUMN = f"B*H*min(block_q, N//R)*{WIDE}", f"B*H*min(block_k, M//R)*{WIDE}"
_TILE = f"{_ROW}*min(block_k, M//R)"
_TILES = {"tile": _TILE, "hidden": "causal*min(block_q, N//R)*min(block_k, M//R)"}
#: The blocks of other ranks, at hand and on their way; a rank's own blocks are inputs.
_VISITING = {"k, v": "min(R - 1, 2)*B*H*(M//R)*(d + dv)*itemsize"}
_LSE = f"B*H*(N//R)*{WIDE}"
_ONLINE = {**_TILES, **_VISITING, "acc": f"{_LSE}*dv", "row_max, row_sum": f"2*{_LSE}"}
_SIZES = {"sizes": "56*(1 + min(R - 1, 2))", "all ranks' sizes": "56*R"}
_FORWARD = (
    Phase("sizes", _SIZES),
    Phase("scores", {**_ONLINE, "q_i, k_j": f"{HALF}*({_ROW} + {_COLUMN})*d"}),
    Phase("softmax", {**_ONLINE, "new_max, sum of p": f"2*{_ROW}"}),
    Phase("acc", {**_ONLINE, "new_max": _ROW, "v_j": f"{HALF}*{_COLUMN}*dv"}),
    Phase("out", {"acc": f"{_LSE}*dv", "lse": _LSE, "out": f"{HALF}*B*H*(N//R)*dv*itemsize"}),
)

_KEPT = {**LOSS, "out": "B*H*(N//R)*dv*itemsize", "lse": _LSE, "delta": _LSE}
_PAIR = {**_KEPT, **_TILES, "slope": _TILE, "grad_i": f"{_ROW}*dv"}
_DQ = {"dq": f"{_LSE}*d"}
_DK, _DV = {"dk": f"B*H*(M//R)*d*{WIDE}"}, {"dv": f"B*H*(M//R)*dv*{WIDE}"}
_HALF_K = {"k gradient": f"{HALF}*B*H*(M//R)*d*itemsize"}
_HALF_V = {"v gradient": f"{HALF}*B*H*(M//R)*dv*itemsize"}
_BACKWARD = (
    Phase("delta", {**_PAIR, "out_i": f"{HALF}*{_ROW}*dv"}),
    Phase(
        "gradients",
        {
            **_PAIR,
            **_VISITING,
            **_DQ,
            **_DK,
            **_DV,
            "dk, dv on their way": f"min(R - 1, 1)*B*H*(M//R)*(d + dv)*{WIDE}",
            "q_i, k_j or v_j": f"{HALF}*({_ROW}*d + {_COLUMN}*max(d, dv))",
        },
    ),
    Phase("dk.to(q.dtype)", {**_KEPT, **_DQ, **_DK, **_DV, **_HALF_K}),
    Phase("dv.to(q.dtype)", {**_KEPT, **_DQ, **_DV, **_HALF_K, **_HALF_V}),
    Phase(
        "dq.to(q.dtype)",
        {
            **_KEPT,
            **_DQ,
            **{"k gradient": "B*H*(M//R)*d*itemsize", "v gradient": "B*H*(M//R)*dv*itemsize"},
            "q gradient": f"{HALF}*B*H*(N//R)*d*itemsize",
        },
    ),
)

_DEFAULTS = {"causal": 0, "block_q": BLOCK_Q, "block_k": BLOCK_K}
#: One rank's peak, of R; N and M count the positions of all.
MODEL = kernel_model("ring", _FORWARD, _FORWARD + _BACKWARD, _DEFAULTS)
