"""Tiles of scores, and the softmax that goes over them row by row: of ``flash`` and ``chunked``."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from .recorded import add_mask, blocks, load


@dataclass(frozen=True, slots=True)
class Cut:
    """The scale and the mask of the scores, and the size of their tiles."""

    causal: bool
    scale: float
    block_q: int
    block_k: int

    def skips(self, rows: slice, cols: slice) -> bool:
        """Returns True if the tile lies above the diagonal."""
        return self.causal and cols.start >= rows.stop

    def columns(self, rows: slice, M: int) -> list[slice]:
        """Returns the blocks of keys that some of the queries see."""
        return [cols for cols in blocks(M, self.block_k) if not self.skips(rows, cols)]


def online(
    q_i: Tensor, rows: slice, k: Tensor, v: Tensor, tile: Tile, g: int = 0
) -> tuple[Tensor, Tensor]:
    """A block of rows over all keys: its output [B·Hkv, n, dv], log-sum-exp [B·Hkv, n, 1]."""
    BH, n, _ = q_i.shape
    acc = q_i.new_zeros(BH, n, v.shape[3])  # [B·Hkv, n, dv]
    # Finite, so that the difference is defined for a query that sees no key.
    row_max = q_i.new_full((BH, n, 1), torch.finfo(q_i.dtype).min)  # [B·Hkv, n, 1]
    row_sum = q_i.new_zeros(BH, n, 1)  # [B·Hkv, n, 1]
    for cols in tile.cut.columns(rows, k.shape[2]):
        p = tile.scores(q_i, load(k, cols, tile.dtype), rows, cols, g)
        new_max = torch.maximum(row_max, p.amax(-1, keepdim=True))  # [B·Hkv, n, 1], twice
        p.sub_(new_max).exp_()
        shrink = row_max.sub_(new_max).exp_()
        row_sum.mul_(shrink).add_(p.sum(-1, keepdim=True))  # [B·Hkv, n, 1]
        acc.mul_(shrink).baddbmm_(p, load(v, cols, tile.dtype))
        row_max = new_max
        del new_max, shrink
    row_sum.clamp_(min=1)  # no change unless no key is seen: the largest score alone adds 1
    return acc.div_(row_sum), row_max.add_(row_sum.log_())


class Tile:
    """Room for the scores of one block of queries by one of keys, used for each in turn."""

    def __init__(self, q: Tensor, k: Tensor, mask: Tensor | None, cut: Cut) -> None:
        (B, H, N, _), (Hkv, M) = q.shape, k.shape[1:3]
        n, m = min(cut.block_q, N), min(cut.block_k, M)
        self.cut = cut
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        self.buffer = q.new_empty(B * Hkv, n, m, dtype=self.dtype)  # [B·Hkv, block_q, block_k]
        if cut.causal:
            self._hidden = q.new_empty(n, m, dtype=torch.bool)  # [block_q, block_k]
        self._masks = None if mask is None else members(mask.expand(B, H, N, M), Hkv)
        boolean = mask is not None and mask.dtype == torch.bool
        self._nothing = q.new_full((), -torch.inf, dtype=self.dtype) if boolean else None

    def scores(self, q_i: Tensor, k_j: Tensor, rows: slice, cols: slice, g: int = 0) -> Tensor:
        """Scaled scores [B·Hkv, n, m] of each group's head g, -inf where a key is hidden."""
        n, m = q_i.shape[1], k_j.shape[1]
        scores = self.buffer[:, :n, :m]
        scores.baddbmm_(q_i, k_j.mT, beta=0, alpha=self.cut.scale)
        if self.cut.causal and cols.stop - 1 > rows.start:
            # Key cols.start + c comes after query rows.start + r: c - r > rows.start - cols.start.
            self._hidden.fill_(True).triu_(rows.start - cols.start + 1)
            scores.masked_fill_(self._hidden[:n, :m], -torch.inf)
        if self._masks is not None:
            add_mask(scores, self._masks[g][:, :, rows, cols], self._nothing)
        return scores


def members(x: Tensor, Hkv: int) -> tuple[Tensor, ...]:
    """Returns the first query heads of all groups, the second, and so on: [B, Hkv, N, …] each."""
    heads: tuple[Tensor, ...] = x.unflatten(1, (Hkv, x.shape[1] // Hkv)).unbind(2)
    return heads
