"""Tiles of scores, and the softmax that goes over them row by row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from .recorded import blocks, load

#: Takes room of bools and the rows and columns of a tile; returns it with True where a key is
#: hidden, or None if none is.
Hide: TypeAlias = Callable[[Tensor, slice, slice], Tensor | None]


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

    def hide(self, hidden: Tensor, rows: slice, cols: slice) -> Tensor | None:
        """Hides keys after their query."""
        if not self.causal or cols.stop - 1 <= rows.start:
            return None
        # Key cols.start + c comes after query rows.start + r: c - r > rows.start - cols.start.
        return hidden.fill_(True).triu_(rows.start - cols.start + 1)

    def columns(self, rows: slice, M: int) -> list[slice]:
        """Returns the blocks of keys that some of the queries see."""
        return [cols for cols in blocks(M, self.block_k) if not self.skips(rows, cols)]

    def tile(self, q: Tensor, k: Tensor, mask: Tensor | None = None) -> Tile:
        """Returns the room of one block of queries by one of keys."""
        n, m = min(self.block_q, q.shape[2]), min(self.block_k, k.shape[2])
        hidden = (n, m) if self.causal else (0, 0)
        return Tile(q, k, mask, self.scale, self.hide, (n, m), hidden)


def online(
    q_i: Tensor, rows: slice, k: Tensor, v: Tensor, tile: Tile, cut: Cut, g: int = 0
) -> tuple[Tensor, Tensor]:
    """A block of rows over all keys: its output [B·Hkv, n, dv], log-sum-exp [B·Hkv, n, 1]."""
    BH, n, _ = q_i.shape
    acc = q_i.new_zeros(BH, n, v.shape[3])  # [B·Hkv, n, dv]
    row_max, row_sum = new_sums(acc)
    for cols in cut.columns(rows, k.shape[2]):
        p = tile.scores(q_i, load(k, cols, tile.dtype), rows, cols, g)
        take_in(p, v, cols, acc, row_max, row_sum)
    row_sum.clamp_(min=1)  # no change unless no key is seen: the largest score alone adds 1
    return acc.div_(row_sum), row_max.add_(row_sum.log_())


def new_sums(acc: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the largest score and the sum of weights of each row of ``acc``, before any key."""
    # Finite, so that the difference is defined for a query that sees no key.
    row_max = acc.new_full((*acc.shape[:-1], 1), torch.finfo(acc.dtype).min)  # […, n, 1]
    return row_max, torch.zeros_like(row_max)


def take_in(
    p: Tensor, v: Tensor, cols: slice, acc: Tensor, row_max: Tensor, row_sum: Tensor
) -> None:
    """Adds a tile of scores [B·H, n, m], which become weights, to the softmax of its rows."""
    new_max = torch.maximum(row_max, p.amax(-1, keepdim=True))  # [B·H, n, 1], twice
    p.sub_(new_max).exp_()
    shrink = row_max.sub_(new_max).exp_()
    row_sum.mul_(shrink).add_(p.sum(-1, keepdim=True))  # [B·H, n, 1]
    acc.mul_(shrink).baddbmm_(p, load(v, cols, acc.dtype))
    row_max.copy_(new_max)


class Tile:
    """Room for the scores of one block of queries by one of keys, used for each in turn."""

    def __init__(
        self,
        q: Tensor,
        k: Tensor,
        mask: Tensor | None,
        scale: float,
        hide: Hide,
        size: tuple[int, int],
        hidden: tuple[int, int],
    ) -> None:
        (B, H, N, _), (Hkv, M) = q.shape, k.shape[1:3]
        self._scale, self._hide = scale, hide
        self.dtype = torch.promote_types(q.dtype, torch.float32)
        self.buffer = q.new_empty(B * Hkv, *size, dtype=self.dtype)  # [B·Hkv, n, m]
        self._hidden = q.new_empty(hidden, dtype=torch.bool)  # [n, m]
        self._masks = None if mask is None else members(mask.expand(B, H, N, M), Hkv)
        boolean = mask is not None and mask.dtype == torch.bool
        self._nothing = q.new_full((), -torch.inf, dtype=self.dtype) if boolean else None

    def scores(self, q_i: Tensor, k_j: Tensor, rows: slice, cols: slice, g: int = 0) -> Tensor:
        """Scaled scores [B·Hkv, n, m] of each group's head g, -inf where a key is hidden."""
        n, m = q_i.shape[1], k_j.shape[1]
        scores = self.buffer[:, :n, :m]
        scores.baddbmm_(q_i, k_j.mT, beta=0, alpha=self._scale)
        hidden = self._hide(self._hidden, rows, cols)
        if hidden is not None:
            scores.masked_fill_(hidden[:n, :m], -torch.inf)
        if self._masks is not None:
            mask = self._masks[g][:, :, rows, cols]  # [B, Hkv, n, m]
            seen = scores.unflatten(0, mask.shape[:2])  # a view
            if self._nothing is None:
                seen.add_(mask)
            else:
                torch.where(mask, seen, self._nothing, out=seen)
        return scores


def members(x: Tensor, Hkv: int) -> tuple[Tensor, ...]:
    """Returns the first query heads of all groups, the second, and so on: [B, Hkv, N, …] each."""
    heads: tuple[Tensor, ...] = x.unflatten(1, (Hkv, x.shape[1] // Hkv)).unbind(2)
    return heads
