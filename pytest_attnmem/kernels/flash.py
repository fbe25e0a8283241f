"""FlashAttention-2 in plain PyTorch: tiles and an online softmax, never the N×M scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ..budgets.memory_model import KernelModel, MemoryModel, Phase
from .input_checks import check_inputs
from .kernel import Kernel

BLOCK_Q, BLOCK_K = 128, 128


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_q: int = BLOCK_Q,
    block_k: int = BLOCK_K,
) -> Tensor:
    """Softmax attention by tiles: q [B, H, N, d], k [B, H, M, d], v [B, H, M, dv] → [B, H, N, dv].

    A tile is ``block_q`` queries by ``block_k`` keys. With ``causal``, query i sees keys 0 to i and
    tiles above the diagonal are skipped. ``scale`` is ``d**-0.5`` by default.

    The backward pass keeps q, k, v, the output and the logarithm of each row's sum of
    exponentials, [B, H, N]; scores are computed again. What is inside a tile, that logarithm and
    dq until it is complete are float32 for half inputs, and of the inputs' dtype otherwise.

    Raises:
        ValueError: the inputs do not fit together, or a block has no rows.

    O(N·d) memory, O(N²·d) time: Dao, 2023 (arXiv 2307.08691), FlashAttention-2: Faster Attention
    with Better Parallelism and Work Partitioning.
    """
    check_inputs(q, k, v)
    for name, block in (("block_q", block_q), ("block_k", block_k)):
        if block < 1:
            raise ValueError(f"{name} must be at least 1, got {block}")
    cut = _Cut(causal, q.shape[3] ** -0.5 if scale is None else scale, block_q, block_k)
    if torch.is_grad_enabled() and (q.requires_grad or k.requires_grad or v.requires_grad):
        out: Tensor = _Flash.apply(q, k, v, cut)  # type: ignore[no-untyped-call]
        return out
    return _forward(q, k, v, cut)[0]


@dataclass(frozen=True, slots=True)
class _Cut:
    """The scale and the mask of the scores, and the size of their tiles."""

    causal: bool
    scale: float
    block_q: int
    block_k: int

    def skips(self, rows: slice, cols: slice) -> bool:
        """Returns True if the tile lies above the diagonal."""
        return self.causal and cols.start >= rows.stop


class _Flash(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, cut: _Cut) -> Tensor:
        out, lse = _forward(q, k, v, cut)
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.cut = cut
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, out, lse = ctx.saved_tensors
        return *_backward(q, k, v, out, lse, grad, ctx.cut), None


def _forward(q: Tensor, k: Tensor, v: Tensor, cut: _Cut) -> tuple[Tensor, Tensor]:
    (B, H, N, _), dv = q.shape, v.shape[3]
    tile = _Tile(q, k, cut)
    out = q.new_empty(B, H, N, dv)  # [B, H, N, dv]
    lse = q.new_empty(B, H, N, dtype=tile.dtype)  # [B, H, N]
    for rows in _blocks(N, cut.block_q):
        out_i, lse_i = _online(_load(q, rows, tile.dtype), rows, k, v, tile)
        out[:, :, rows] = out_i.unflatten(0, (B, H))
        lse[:, :, rows] = lse_i.unflatten(0, (B, H)).squeeze(-1)
        del out_i, lse_i  # here and below: before the next ones are made
    return out, lse


def _online(q_i: Tensor, rows: slice, k: Tensor, v: Tensor, tile: _Tile) -> tuple[Tensor, Tensor]:
    """One block of rows over all keys: its output [B·H, n, dv] and log-sum-exp [B·H, n, 1]."""
    BH, n, _ = q_i.shape
    acc = q_i.new_zeros(BH, n, v.shape[3])  # [B·H, n, dv]
    row_max = q_i.new_full((BH, n, 1), -torch.inf)  # [B·H, n, 1]
    row_sum = q_i.new_zeros(BH, n, 1)  # [B·H, n, 1]
    for cols in _blocks(k.shape[2], tile.cut.block_k):
        if tile.cut.skips(rows, cols):
            break
        p = tile.scores(q_i, _load(k, cols, tile.dtype), rows, cols)
        new_max = torch.maximum(row_max, p.amax(-1, keepdim=True))  # [B·H, n, 1], twice
        p.sub_(new_max).exp_()
        shrink = row_max.sub_(new_max).exp_()
        row_sum.mul_(shrink).add_(p.sum(-1, keepdim=True))  # [B·H, n, 1]
        acc.mul_(shrink).baddbmm_(p, _load(v, cols, tile.dtype))
        row_max = new_max
        del new_max, shrink
    return acc.div_(row_sum), row_max.add_(row_sum.log_())


def _backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, lse: Tensor, grad: Tensor, cut: _Cut
) -> tuple[Tensor, Tensor, Tensor]:
    B, H, N, _ = q.shape
    tile = _Tile(q, k, cut)
    slope = torch.empty_like(tile.buffer)  # [B·H, block_q, block_k]
    delta = torch.empty_like(lse)  # [B, H, N]
    for rows in _blocks(N, cut.block_q):
        grad_i = _copy(grad, rows, tile.dtype)  # [B·H, n, dv]
        grad_i.mul_(_load(out, rows, tile.dtype))
        delta[:, :, rows] = grad_i.sum(-1).unflatten(0, (B, H))  # [B·H, n]
        del grad_i
    dq = q.new_zeros(q.shape, dtype=tile.dtype)  # [B, H, N, d]
    dk, dv = k.new_empty(k.shape), v.new_empty(v.shape)  # [B, H, M, d], [B, H, M, dv]
    for cols in _blocks(k.shape[2], cut.block_k):
        k_j, v_j = _load(k, cols, tile.dtype), _load(v, cols, tile.dtype)
        dk_j, dv_j = k_j.new_zeros(k_j.shape), v_j.new_zeros(v_j.shape)  # [B·H, m, d], […, dv]
        for rows in _blocks(N, cut.block_q):
            if cut.skips(rows, cols):
                continue
            q_i, grad_i = _load(q, rows, tile.dtype), _copy(grad, rows, tile.dtype)
            p = tile.scores(q_i, k_j, rows, cols)
            p.sub_(_load(lse, rows, tile.dtype).unsqueeze(-1)).exp_()
            dv_j.baddbmm_(p.mT, grad_i)
            ds = slope[:, : p.shape[1], : p.shape[2]].baddbmm_(grad_i, v_j.mT, beta=0)
            ds.sub_(_load(delta, rows, tile.dtype).unsqueeze(-1)).mul_(p)
            _load(dq, rows, tile.dtype).baddbmm_(ds, k_j, alpha=cut.scale)
            dk_j.baddbmm_(ds.mT, q_i, alpha=cut.scale)
            del q_i, grad_i, p, ds
        dk[:, :, cols] = dk_j.unflatten(0, (B, H))
        dv[:, :, cols] = dv_j.unflatten(0, (B, H))
        del k_j, v_j, dk_j, dv_j
    del tile, slope  # makes room for dq in the inputs' dtype
    return dq.to(q.dtype), dk, dv


class _Tile:
    """Room for the scores of one block of queries by one of keys, used for each in turn."""

    def __init__(self, q: Tensor, k: Tensor, cut: _Cut) -> None:
        (B, H, N, _), M = q.shape, k.shape[2]
        n, m = min(cut.block_q, N), min(cut.block_k, M)
        self.cut = cut
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        self.buffer = q.new_empty(B * H, n, m, dtype=self.dtype)  # [B·H, block_q, block_k]
        if cut.causal:
            self._hidden = q.new_empty(n, m, dtype=torch.bool)  # [block_q, block_k]

    def scores(self, q_i: Tensor, k_j: Tensor, rows: slice, cols: slice) -> Tensor:
        """Scaled scores [B·H, n, m] in the buffer, -inf where a key is hidden."""
        n, m = q_i.shape[1], k_j.shape[1]
        scores = self.buffer[:, :n, :m]
        scores.baddbmm_(q_i, k_j.mT, beta=0, alpha=self.cut.scale)
        if self.cut.causal and cols.stop - 1 > rows.start:
            # Key cols.start + c comes after query rows.start + r: c - r > rows.start - cols.start.
            self._hidden.fill_(True).triu_(rows.start - cols.start + 1)
            scores.masked_fill_(self._hidden[:n, :m], -torch.inf)
        return scores


def _blocks(total: int, size: int) -> list[slice]:
    return [slice(i, min(i + size, total)) for i in range(0, total, size)]


def _load(x: Tensor, rows: slice, dtype: torch.dtype) -> Tensor:
    """Returns a block of rows, [B·H, n, …]: a view, or a copy if the dtype differs."""
    return x[:, :, rows].flatten(0, 1).to(dtype)


def _copy(x: Tensor, rows: slice, dtype: torch.dtype) -> Tensor:
    """Returns the block as a new tensor: no GEMM accepts a gradient of one expanded number."""
    block = x[:, :, rows].flatten(0, 1)
    return block.to(dtype, copy=True, memory_format=torch.contiguous_format)


_HALF = "max(4//itemsize - 1, 0)"  # 1 for half inputs: their blocks are converted when loaded
_TILE = "B*H*min(block_q, N)*min(block_k, M)*max(itemsize, 4)"
_ROW = "B*H*min(block_q, N)*max(itemsize, 4)"
_COLUMN = "B*H*min(block_k, M)*max(itemsize, 4)"

_KEPT = {"out": "B*H*N*dv*itemsize", "lse": "B*H*N*max(itemsize, 4)"}
_TILES = {**_KEPT, "tile": _TILE, "hidden": "causal*min(block_q, N)*min(block_k, M)"}
_BLOCK = {**_TILES, "q_i": f"{_HALF}*{_ROW}*d", "acc": f"{_ROW}*dv"}
_FORWARD = (
    Phase("scores", {**_BLOCK, "k_j": f"{_HALF}*{_COLUMN}*d", "row_max, row_sum": f"2*{_ROW}"}),
    Phase("softmax", {**_BLOCK, "row_max, new_max, row_sum, sum of p": f"4*{_ROW}"}),
    Phase(
        "acc", {**_BLOCK, "v_j": f"{_HALF}*{_COLUMN}*dv", "row_max, new_max, row_sum": f"3*{_ROW}"}
    ),
)

_LOSS = {"loss": "itemsize", "loss gradient": "itemsize"}
_GRADS = {
    "delta": "B*H*N*max(itemsize, 4)",
    "dq": "B*H*N*d*max(itemsize, 4)",
    "dk": "B*H*M*d*itemsize",
    "dv": "B*H*M*dv*itemsize",
}
_PAIR = {**_LOSS, **_TILES, "slope": _TILE, "grad_i": f"{_ROW}*dv"}
_BACKWARD = (
    Phase("delta", {**_PAIR, "delta": _GRADS["delta"], "out_i": f"{_HALF}*{_ROW}*dv"}),
    Phase(
        "gradients",
        {
            **_PAIR,
            **_GRADS,
            "dk_j, dv_j": f"{_COLUMN}*(d + dv)",
            "q_i, k_j, v_j": f"{_HALF}*({_ROW}*d + {_COLUMN}*(d + dv))",
        },
    ),
    Phase("dq.to(q.dtype)", {**_LOSS, **_KEPT, **_GRADS, "result": f"{_HALF}*B*H*N*d*itemsize"}),
)

_DEFAULTS = {"causal": 0, "block_q": BLOCK_Q, "block_k": BLOCK_K}
MODEL = KernelModel(
    forward=MemoryModel("flash forward", _FORWARD, _DEFAULTS),
    training=MemoryModel("flash training", _FORWARD + _BACKWARD, _DEFAULTS),
)

KERNEL = Kernel("flash", attention, MODEL)
