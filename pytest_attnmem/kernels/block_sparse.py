"""Block-sparse attention: standard attention that computes only the scores of active blocks.

These may be local, strided or random.
"""

from __future__ import annotations

import random as randomness
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import at_least_one, check_inputs
from .kernel import Kernel
from .memory_terms import HALF, LOSS, OUT, WIDE_DKV, Q, kernel_model, narrowed
from .recorded import load, recorded


@dataclass(frozen=True, slots=True)
class BlockMask:
    """The active blocks of the scores. Masks of one size combine with ``|``."""

    rows: tuple[tuple[int, ...], ...]
    """For each block of queries, the active blocks of keys, in order."""
    columns: int
    """The number of blocks of keys."""

    @property
    def active(self) -> int:
        """The number of active blocks: the symbol ``active`` of the model."""
        return sum(map(len, self.rows))

    def causal(self) -> BlockMask:
        """Returns the mask without the blocks above the diagonal."""
        rows = (tuple(j for j in row if j <= i) for i, row in enumerate(self.rows))
        return BlockMask(tuple(rows), self.columns)

    def __or__(self, other: BlockMask) -> BlockMask:
        if (len(self.rows), self.columns) != (len(other.rows), other.columns):
            raise ValueError(
                f"block masks must have one shape, got {[len(self.rows), self.columns]} and"
                f" {[len(other.rows), other.columns]}"
            )
        both = zip(self.rows, other.rows, strict=True)
        return BlockMask(tuple(tuple(sorted({*a, *b})) for a, b in both), self.columns)


def local(rows: int, columns: int, window: int) -> BlockMask:
    """Returns the blocks (i, j) with ``|i - j| < window``."""
    at_least_one(window=window)
    near = (range(max(0, i - window + 1), min(columns, i + window)) for i in range(rows))
    return BlockMask(tuple(map(tuple, near)), columns)


def strided(rows: int, columns: int, stride: int) -> BlockMask:
    """Returns the blocks (i, j) with ``i - j`` a multiple of ``stride``."""
    at_least_one(stride=stride)
    return BlockMask(tuple(tuple(range(i % stride, columns, stride)) for i in range(rows)), columns)


def random(
    rows: int, columns: int, count: int, *, causal: bool = False, seed: int = 0
) -> BlockMask:
    """Returns ``count`` random blocks of keys for each block of queries, or all of fewer blocks.

    With ``causal`` no block is above the diagonal. The same ``seed`` gives the same blocks.
    """
    at_least_one(count=count)
    draw = randomness.Random(seed)
    known = (min(columns, i + 1) if causal else columns for i in range(rows))
    drawn = (tuple(sorted(draw.sample(range(m), min(count, m)))) for m in known)
    return BlockMask(tuple(drawn), columns)


BLOCK = 64


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    block_mask: BlockMask | Tensor | None = None,
    block: int = BLOCK,
) -> Tensor:
    """Softmax attention to the keys of active blocks → [B, H, N, dv].

    The backward pass keeps the weights of active blocks, q, k, v and the output. Weights and sums
    are float32 for half inputs.

    Args:
        q: [B, H, N, d].
        k: [B, H, M, d].
        v: [B, H, M, dv].
        causal: Query i sees only the keys 0 … i; blocks above the diagonal are dropped.
        scale: The factor of the scores, ``d ** -0.5`` by default.
        block_mask: The active blocks, bool [ceil(N/block), ceil(M/block)] or a pattern of
            this module; all by default. Queries without an active block get zeros.
        block: Queries, and keys, in a block.

    Raises:
        ValueError: the inputs do not fit together, or ``block`` is less than 1.

    O(N·d + active·block²) memory, O(active·block²·d) time: Child et al., 2019 (arXiv 1904.10509),
    Generating Long Sequences with Sparse Transformers; random blocks as in Zaheer et al., 2020
    (arXiv 2007.14062), Big Bird.
    """
    check_inputs(q, k, v)
    at_least_one(block=block)
    (N, d), M = q.shape[2:], k.shape[2]
    mask = _active(block_mask, (-(-N // block), -(-M // block)), causal)
    layout = _Layout(mask, block, causal, d**-0.5 if scale is None else scale, N, M)
    return recorded("block-sparse", _forward, _backward, layout, q, k, v)


def _active(given: BlockMask | Tensor | None, full: tuple[int, int], causal: bool) -> BlockMask:
    """Returns the active blocks of ``full``, the blocks of queries and of keys."""
    if given is None:
        given = local(*full, max(full))  # all
    if isinstance(given, Tensor) and given.dtype != torch.bool:
        raise ValueError(f"block_mask must be of torch.bool, got {given.dtype}")
    shape = given.shape if isinstance(given, Tensor) else (len(given.rows), given.columns)
    if (*shape,) != full:
        raise ValueError(
            f"block_mask must have shape [ceil(N/block), ceil(M/block)] = {[*full]}, got {[*shape]}"
        )
    if isinstance(given, Tensor):
        rows = (tuple(j for j, on in enumerate(row) if on) for row in given.tolist())
        given = BlockMask(tuple(rows), full[1])
    return given.causal() if causal else given


@dataclass(frozen=True, slots=True)
class _Layout:
    """The scale and the mask of the scores, and the place of each active block's weights."""

    mask: BlockMask
    block: int
    causal: bool
    scale: float
    N: int
    M: int

    @property
    def size(self) -> tuple[int, int]:
        """The queries and keys of the largest block."""
        return min(self.block, self.N), min(self.block, self.M)

    def parts(self, weights: Tensor) -> Iterator[tuple[slice, Tensor, list[tuple[slice, Tensor]]]]:
        """Yields each block of queries: its weights [B·H, n, visible keys], whole and by block.

        ``weights`` is [B·H, active·block²]; a block of queries has its active blocks side by side.
        """
        (n, m), start = self.size, 0
        for i, row in enumerate(self.mask.rows):
            if not row:
                continue
            rows = slice(i * self.block, min((i + 1) * self.block, self.N))
            columns = [slice(j * self.block, min((j + 1) * self.block, self.M)) for j in row]
            stop = start + n * m * len(row)
            p = weights[:, start:stop].unflatten(1, (n, m * len(row)))[:, : rows.stop - rows.start]
            # Only the last block may be narrower.
            p = p[:, :, : m * (len(row) - 1) + columns[-1].stop - columns[-1].start]
            yield rows, p, list(zip(columns, p.split(m, -1), strict=True))
            start = stop


def _forward(
    q: Tensor, k: Tensor, v: Tensor, layout: _Layout
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    (B, H, N, _), dv, (n, m) = q.shape, v.shape[3], layout.size
    dtype = torch.promote_types(q.dtype, torch.float32)
    out = q.new_zeros(B, H, N, dv)  # [B, H, N, dv]
    weights = q.new_empty(B * H, layout.mask.active * n * m, dtype=dtype)  # [B·H, active·block²]
    # In a block on the diagonal, the c-th key comes after the r-th query if c > r.
    hidden = q.new_full((n, m) if layout.causal else (0, 0), True, dtype=torch.bool).triu_(1)
    for rows, p, blocks in layout.parts(weights):
        q_i = load(q, rows, dtype)
        for cols, p_j in blocks:
            p_j.baddbmm_(q_i, load(k, cols, dtype).mT, beta=0, alpha=layout.scale)
            if layout.causal and cols.start == rows.start:
                p_j.masked_fill_(hidden[: p_j.shape[1], : p_j.shape[2]], -torch.inf)
        del q_i
        p.sub_(p.amax(-1, keepdim=True)).exp_()  # [B·H, n, 1]
        p.div_(p.sum(-1, keepdim=True))  # [B·H, n, 1]
        out_i = p.new_zeros(*p.shape[:2], dv)  # [B·H, n, dv]
        for cols, p_j in blocks:
            out_i.baddbmm_(p_j, load(v, cols, dtype))
        out[:, :, rows] = out_i.unflatten(0, (B, H))
        del out_i  # before the next one is made
    return out, (out, weights)


def _backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, weights: Tensor, grad: Tensor, layout: _Layout
) -> tuple[Tensor, Tensor, Tensor]:
    (B, H), (n, m), dtype = q.shape[:2], layout.size, weights.dtype
    slope = weights.new_empty(B * H, n, m)  # [B·H, block, block]
    dq = q.new_zeros(q.shape)  # [B, H, N, d]
    dk, dv = k.new_zeros(k.shape, dtype=dtype), v.new_zeros(v.shape, dtype=dtype)
    for rows, _, blocks in layout.parts(weights):
        q_i, grad_i = load(q, rows, dtype), load(grad, rows, dtype, copy=True)  # [B·H, n, dv]
        out_i = load(out, rows, dtype, copy=True)  # [B·H, n, dv]
        delta_i = out_i.mul_(grad_i).sum(-1, keepdim=True)  # [B·H, n, 1]
        del out_i
        dq_i = grad_i.new_zeros(q_i.shape)  # [B·H, n, d]
        for cols, p in blocks:
            k_j, v_j = load(k, cols, dtype), load(v, cols, dtype)
            load(dv, cols, dtype).baddbmm_(p.mT, grad_i)
            ds = slope[:, : p.shape[1], : p.shape[2]].baddbmm_(grad_i, v_j.mT, beta=0)
            ds.sub_(delta_i).mul_(p)
            dq_i.baddbmm_(ds, k_j, alpha=layout.scale)
            load(dk, cols, dtype).baddbmm_(ds.mT, q_i, alpha=layout.scale)
            del k_j, v_j, ds
        dq[:, :, rows] = dq_i.unflatten(0, (B, H))
        del q_i, grad_i, delta_i, dq_i
    del slope  # makes room for dk and dv in the inputs' dtype
    dk = dk.to(q.dtype)
    return dq, dk, dv.to(q.dtype)


_N, _M = "min(block, N)", "min(block, M)"
_ROWS, _COLUMNS = "ceil(N/block)", "ceil(M/block)"
_SHORTER = f"min({_ROWS}, {_COLUMNS})"
_LOWER = f"({_SHORTER}*({_SHORTER} + 1)/2 + ({_ROWS} - {_SHORTER})*{_COLUMNS})"
# active = -1 stands for all blocks, or all that are not above the diagonal.
_ALL = f"(causal*{_LOWER} + (1 - causal)*{_ROWS}*{_COLUMNS})"
_ACTIVE = f"(max(0, active) + max(0, -active)*{_ALL})"
_SOME = f"min(1, {_ACTIVE})*B*H*max(itemsize, 4)"
_ROW, _COLUMN = f"{_SOME}*{_N}", f"{_SOME}*{_M}"

_KEPT = {
    "out": OUT,
    "weights": f"B*H*{_ACTIVE}*{_N}*{_M}*max(itemsize, 4)",
}
_HIDDEN = {"hidden": f"causal*{_N}*{_M}"}
# Where some full block of queries, and of keys, is active.
_FORWARD = (
    Phase(
        "scores",
        {**_KEPT, **_HIDDEN, "q_i": f"{HALF}*{_ROW}*d", "k_j": f"{HALF}*{_COLUMN}*d"},
    ),
    Phase("softmax", {**_KEPT, **_HIDDEN, "largest, or sum": _ROW}),
    Phase("out_i", {**_KEPT, **_HIDDEN, "out_i": f"{_ROW}*dv", "v_j": f"{HALF}*{_COLUMN}*dv"}),
)

_GRADS = {**LOSS, **_KEPT, "dq": Q}
_PAIR = {
    **_GRADS,
    **WIDE_DKV,
    "slope": f"B*H*{_N}*{_M}*max(itemsize, 4)",
    "q_i": f"{HALF}*{_ROW}*d",
    "grad_i": f"{_ROW}*dv",
    "delta_i": _ROW,
}
_BACKWARD = (
    Phase("delta_i", {**_PAIR, "out_i": f"{_ROW}*dv"}),
    Phase("gradients", {**_PAIR, "dq_i": f"{_ROW}*d", "k_j, v_j": f"{HALF}*{_COLUMN}*(d + dv)"}),
    *narrowed(_GRADS, "dk"),
)

_DEFAULTS = {"causal": 0, "block": BLOCK, "active": -1}
MODEL = kernel_model("block-sparse", _FORWARD, _FORWARD + _BACKWARD, _DEFAULTS)

KERNEL = Kernel("block-sparse", attention, MODEL)
