"""Ring attention: each rank keeps its queries, and keys and values go round from rank to rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import at_least_one, check_inputs
from .memory_terms import HALF, WIDE, kernel_model
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
    cut = _Cut(causal, scale, block_q, block_k, ring.rank, q.shape[2], k.shape[2])
    return recorded("ring", _forward, _backward, (cut, ring), q, k, v)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, how: tuple[_Cut, Ranks]
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    cut, ring = how
    (B, H, n, _), dv = q.shape, v.shape[3]
    tile = _Tile(q, k, cut)
    acc = tile.buffer.new_zeros(B * H, n, dv)  # [B·H, n, dv]
    # Not -inf: a row may meet hidden keys before any that it sees.
    row_max = acc.new_full((B * H, n, 1), torch.finfo(acc.dtype).min)  # [B·H, n, 1]
    row_sum = acc.new_zeros(B * H, n, 1)  # [B·H, n, 1]
    for owner, (k_j, v_j) in ring.circulate(k, v):
        for rows, cols in cut.tiles(owner):
            p = tile.scores(load(q, rows, acc.dtype), k_j, owner, rows, cols)
            max_i, sum_i, acc_i = row_max[:, rows], row_sum[:, rows], acc[:, rows]
            new_max = torch.maximum(max_i, p.amax(-1, keepdim=True))  # [B·H, bq, 1], twice
            p.sub_(new_max).exp_()
            shrink = max_i.sub_(new_max).exp_()
            sum_i.mul_(shrink).add_(p.sum(-1, keepdim=True))  # [B·H, bq, 1]
            acc_i.mul_(shrink).baddbmm_(p, load(v_j, cols, acc.dtype))
            max_i.copy_(new_max)
            del p, max_i, sum_i, acc_i, new_max, shrink
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
    how: tuple[_Cut, Ranks],
) -> tuple[Tensor, Tensor, Tensor]:
    cut, ring = how
    B, H, n, _ = q.shape
    tile = _Tile(q, k, cut)
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
        for rows, cols in cut.tiles(owner):
            q_i, grad_i = load(q, rows, dtype), load(grad, rows, dtype, copy=True)
            p = tile.scores(q_i, k_j, owner, rows, cols)
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


@dataclass(frozen=True, slots=True)
class _Cut:
    """The scale and the mask of the scores, this rank's part of them, and its tiles."""

    causal: bool
    scale: float
    block_q: int
    block_k: int
    rank: int
    n: int
    m: int

    def tiles(self, owner: int) -> Iterator[tuple[slice, slice]]:
        """Yields the rows and columns of the tiles with visible keys of ``owner``."""
        for rows in blocks(self.n, self.block_q):
            for cols in blocks(self.m, self.block_k):
                if not self.causal or self.diagonal(owner, rows, cols) > -(rows.stop - rows.start):
                    yield rows, cols

    def diagonal(self, owner: int, rows: slice, cols: slice) -> int:
        """Returns the last column that the tile's first row sees."""
        first: int = rows.start - cols.start  # a slice's ends are of any type
        return self.rank * self.n - owner * self.m + first


class _Tile:
    """Room for the scores of one block of queries by one of keys, used for each in turn."""

    def __init__(self, q: Tensor, k: Tensor, cut: _Cut) -> None:
        (B, H, n, _), m = q.shape, k.shape[2]
        bq, bk = min(cut.block_q, n), min(cut.block_k, m)
        self.cut = cut
        dtype = torch.promote_types(q.dtype, torch.float32)
        self.buffer = q.new_empty(B * H, bq, bk, dtype=dtype)  # [B·H, block_q, block_k]
        if cut.causal:
            self._hidden = q.new_empty(bq, bk, dtype=torch.bool)  # [block_q, block_k]

    def scores(self, q_i: Tensor, k_j: Tensor, owner: int, rows: slice, cols: slice) -> Tensor:
        """Scaled scores [B·H, bq, bk] in the buffer, -inf where a key is hidden."""
        n, m = rows.stop - rows.start, cols.stop - cols.start
        scores = self.buffer[:, :n, :m]
        keys = load(k_j, cols, scores.dtype)
        scores.baddbmm_(q_i, keys.mT, beta=0, alpha=self.cut.scale)
        diagonal = self.cut.diagonal(owner, rows, cols)
        if self.cut.causal and diagonal < m - 1:
            self._hidden.fill_(True).triu_(diagonal + 1)
            scores.masked_fill_(self._hidden[:n, :m], -torch.inf)
        return scores


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

_KEPT = {
    **{"loss": "itemsize", "loss gradient": "itemsize"},
    **{"out": "B*H*(N//R)*dv*itemsize", "lse": _LSE, "delta": _LSE},
}
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
