"""Sliding-window attention: each query sees the keys around it, a block of queries at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import at_least_one, check_inputs
from .kernel import Kernel
from .memory_terms import GRADIENTS, HALF, LOSS, NARROWED, kernel_model
from .online_softmax import Tile
from .recorded import blocks, load, recorded

WINDOW, BLOCK = 256, 128


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: Tensor | None = None,
    window: int = WINDOW,
    block: int = BLOCK,
) -> Tensor:
    """Softmax attention to the keys within a window → [B, H, N, dv].

    Scores are there for a block of queries at a time, and the keys that it sees. For the backward
    pass it keeps q, k, v and the mask; weights are computed again. Within a block all is float32
    for half inputs, and so are the gradients of k and v until they are complete.

    Args:
        q: [B, H, N, d].
        k: [B, H, M, d].
        v: [B, H, M, dv].
        causal: Query i sees itself and what is before it, ``window`` keys: j = i - window + 1 … i.
            Otherwise it sees as many on either side: ``|i - j| < window``.
        scale: The factor of the scores, ``d ** -0.5`` by default.
        mask: Broadcastable to [B, H, N, M]: bool, True for a visible key, or of q's dtype, added
            to the scores. A query that sees no key gets zeros, and so does one that is
            ``window`` or more past the last key.
        window: Keys that a query sees on one side, itself included.
        block: Queries computed at a time.

    Raises:
        ValueError: the inputs do not fit together, ``window`` or ``block`` is less than 1, or
            ``mask`` wants a gradient.

    O(N·d) memory, O(N·window·d) time: Beltagy et al., 2020 (arXiv 2004.05150), Longformer: The
    Long-Document Transformer; causal as in Jiang et al., 2023 (arXiv 2310.06825), Mistral 7B.
    """
    check_inputs(q, k, v, mask)
    at_least_one(window=window, block=block)
    (N, d), M = q.shape[2:], k.shape[2]
    band = Band(causal, d**-0.5 if scale is None else scale, window, block, N, M)
    return recorded("sliding-window", _forward, _backward, band, q, k, v, mask)


@dataclass(frozen=True, slots=True)
class Band:
    """The visible band of the scores, and its blocks."""

    causal: bool
    scale: float
    window: int
    block: int
    N: int
    M: int

    @property
    def ahead(self) -> int:
        """The number of keys that a query sees after its own."""
        return 0 if self.causal else self.window - 1

    @property
    def behind(self) -> int:
        """The number of keys that a query sees before its own."""
        return self.window - 1

    @property
    def queries(self) -> int:
        """The number of queries that see a key."""
        return min(self.N, self.M + self.behind)

    @property
    def keys(self) -> int:
        """The number of keys that a query sees."""
        return min(self.M, self.N + self.ahead)

    @property
    def rows(self) -> int:
        """The number of queries in a block."""
        return min(self.block, self.queries)

    @property
    def columns(self) -> int:
        """The number of keys of a block, the same for all blocks; some are hidden at the ends."""
        return min(self.keys, self.rows + self.behind + self.ahead)

    def blocks(self) -> list[tuple[slice, slice]]:
        """Returns each block's queries, and the keys that some of them see."""
        cut = blocks(self.queries, max(self.rows, 1))
        last = self.keys - self.columns
        starts = [max(0, min(rows.start - self.behind, last)) for rows in cut]
        return [
            (rows, slice(start, start + self.columns))
            for rows, start in zip(cut, starts, strict=True)
        ]

    def hide(self, hidden: Tensor, rows: slice, cols: slice) -> Tensor:
        """Hides keys outside the window of a query, by ``Hide``."""
        # Query rows.start + r sees key cols.start + c if -behind <= c - r - offset <= ahead.
        offset = rows.start - cols.start
        seen = hidden.fill_(True).triu_(offset - self.behind).tril_(offset + self.ahead)
        return seen.logical_not_()

    def tile(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Tile:
        """Returns the room of one block of queries and the keys that it sees."""
        size = self.rows, self.columns
        return Tile(q, k, mask, self.scale, self.hide, size, size)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, band: Band
) -> tuple[Tensor, tuple[()]]:
    (B, H, N, _), dv = q.shape, v.shape[3]
    tile = band.tile(q, k, mask)
    out = q.new_zeros(B, H, N, dv)  # [B, H, N, dv]
    for rows, cols in band.blocks():
        q_i, k_i = load(q, rows, tile.dtype), load(k, cols, tile.dtype)
        p = _weights(tile.scores(q_i, k_i, rows, cols))
        del k_i
        out_i = p @ load(v, cols, tile.dtype)  # [B·H, n, dv]
        out[:, :, rows] = out_i.unflatten(0, (B, H))
        del q_i, p, out_i  # before the next ones are made
    return out, ()


def _backward(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, grad: Tensor, band: Band
) -> tuple[Tensor, Tensor, Tensor]:
    B, H = q.shape[:2]
    tile = band.tile(q, k, mask)
    slope = torch.empty_like(tile.buffer)  # [B·H, block, columns]
    dq = q.new_zeros(q.shape)  # [B, H, N, d]
    dk, dv = k.new_zeros(k.shape, dtype=tile.dtype), v.new_zeros(v.shape, dtype=tile.dtype)
    for rows, cols in band.blocks():
        q_i, k_i, v_i = (load(x, at, tile.dtype) for x, at in ((q, rows), (k, cols), (v, cols)))
        grad_i = load(grad, rows, tile.dtype, copy=True)  # [B·H, n, dv]
        p = _weights(tile.scores(q_i, k_i, rows, cols))
        load(dv, cols, tile.dtype).baddbmm_(p.mT, grad_i)
        ds = slope[:, : p.shape[1]].baddbmm_(grad_i, v_i.mT, beta=0)
        ds.addcmul_(p, ds.mul_(p).sum(-1, keepdim=True), value=-1)  # [B·H, n, 1]
        load(dk, cols, tile.dtype).baddbmm_(ds.mT, q_i, alpha=band.scale)
        dq_i = torch.empty_like(q_i)  # [B·H, n, d]
        dq[:, :, rows] = dq_i.baddbmm_(ds, k_i, beta=0, alpha=band.scale).unflatten(0, (B, H))
        del q_i, k_i, v_i, grad_i, p, ds, dq_i
    del tile, slope  # makes room for dk and dv in the inputs' dtype
    dk = dk.to(q.dtype)
    return dq, dk, dv.to(q.dtype)


def _weights(p: Tensor) -> Tensor:
    """The softmax of scores [B·H, n, m] in their place, zeros where nothing is seen."""
    # Finite, so that the difference is defined for a query that sees no key.
    largest = p.amax(-1, keepdim=True).clamp_(min=torch.finfo(p.dtype).min)  # [B·H, n, 1]
    p.sub_(largest).exp_()
    del largest
    # The sum is as it is, unless nothing is seen: the largest score alone adds 1.
    return p.div_(p.sum(-1, keepdim=True).clamp_(min=1))  # [B·H, n, 1]


_AHEAD = "(1 - causal)*(window - 1)"
_ROWS = "min(block, N, M + window - 1)"
_COLUMNS = f"min(M, N + {_AHEAD}, {_ROWS} + window - 1 + {_AHEAD})"
_TILE = f"B*H*{_ROWS}*{_COLUMNS}*max(itemsize, 4)"
_ROW = f"B*H*{_ROWS}*max(itemsize, 4)"
_COLUMN = f"B*H*{_COLUMNS}*max(itemsize, 4)"

_TILES = {
    "tile": _TILE,
    "hidden": f"{_ROWS}*{_COLUMNS}",
    "-inf": "min(1, mask)*max(itemsize, 4)",
    "q_i": f"{HALF}*{_ROW}*d",
}
_K_I, _V_I = f"{HALF}*{_COLUMN}*d", f"{HALF}*{_COLUMN}*dv"
_OUT = {"out": "B*H*N*dv*itemsize"}
_FORWARD = (
    Phase("weights", {**_OUT, **_TILES, "k_i": _K_I, "largest, or sum": _ROW}),
    Phase("out_i", {**_OUT, **_TILES, "v_i": _V_I, "out_i": f"{_ROW}*dv"}),
)

_BLOCK = {**GRADIENTS, **_TILES, "slope": _TILE, "grad_i": f"{_ROW}*dv", "k_i": _K_I, "v_i": _V_I}
_BACKWARD = (
    Phase("out.sum()", {**_OUT, **LOSS}),
    Phase("softmax", {**_BLOCK, "largest, or sum": _ROW}),
    Phase("dq_i", {**_BLOCK, "dq_i": f"{_ROW}*d"}),
    *NARROWED,
)

_DEFAULTS = {"causal": 0, "mask": 0, "window": WINDOW, "block": BLOCK}
MODEL = kernel_model("sliding-window", _FORWARD, _FORWARD + _BACKWARD, _DEFAULTS)


def _window(behind: Any) -> Any:
    """Keys less than a window away, before and after the query."""
    return abs(behind) < WINDOW


KERNEL = Kernel("sliding-window", attention, MODEL, mask=True, pattern=_window)
