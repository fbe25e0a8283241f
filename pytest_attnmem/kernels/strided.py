"""Strided sparse attention: each query sees the keys around it and every stride-th one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import at_least_one, check_inputs
from .kernel import Kernel
from .memory_terms import HALF, LOSS, WIDE, kernel_model
from .online_softmax import Tile, new_sums, take_in
from .recorded import blocks, load, recorded
from .sliding_window import Band

_Pairs = list[tuple[slice, slice]]


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: Tensor | None = None,
    stride: int | None = None,
) -> Tensor:
    """Softmax attention to near keys and to every stride-th → [B, H, N, dv].

    Near keys are taken by blocks of queries, far keys by residue, a strided view; both add to one
    running softmax. Backward keeps q, k, v, the mask, the output and the logarithm of each row's
    sum of exponentials, [B, H, N]. Scores, logarithms and sums are float32 for half inputs.

    Args:
        q: [B, H, N, d].
        k: [B, H, M, d].
        v: [B, H, M, dv].
        causal: Query i sees only keys j <= i. With and without ``causal``, a visible key has
            ``|i - j| < stride``, or ``i - j`` is a multiple of ``stride``.
        scale: The factor of the scores, ``d ** -0.5`` by default.
        mask: Broadcastable to [B, H, N, M]: bool, True for a visible key, or of q's dtype, added
            to the scores. A query that sees no key gets zeros.
        stride: √N, rounded up, unless given; memory is O(N·d + stride² + N·M/stride²).

    Raises:
        ValueError: the inputs do not fit together, ``stride`` is less than 1, or ``mask``
            requires a gradient.

    O(N·d) memory, O(N·√N·d) time: Child et al., 2019 (arXiv 1904.10509), Generating Long Sequences
    with Sparse Transformers.
    """
    check_inputs(q, k, v, mask)
    at_least_one(stride=stride)
    (N, d), M = q.shape[2:], k.shape[2]
    stride = math.isqrt(max(N, 1) - 1) + 1 if stride is None else stride
    pattern = _Pattern(causal, d**-0.5 if scale is None else scale, stride, N, M)
    return recorded("strided", _forward, _backward, pattern, q, k, v, mask)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The visible scores, and the blocks of queries and keys that hold each score once."""

    causal: bool
    scale: float
    stride: int
    N: int
    M: int

    @property
    def band(self) -> Band:
        """The near keys: ``stride`` on either side, by blocks of ``stride`` queries."""
        return Band(self.causal, self.scale, self.stride, self.stride, self.N, self.M)

    def parts(self, q: Tensor, k: Tensor, mask: Tensor | None) -> Iterator[tuple[Tile, _Pairs]]:
        """Yields the tile and all blocks of near keys, then of far keys, by residue."""
        yield self.band.tile(q, k, mask), self.band.blocks()
        keys = min(self.N, self.M) if self.causal else self.M
        size = -(-self.N // self.stride), -(-keys // self.stride)
        yield (
            Tile(q, k, mask, self.scale, self._hide_far, size, size),
            [
                (slice(r, self.N, self.stride), slice(r, keys, self.stride))
                for r in range(min(self.stride, self.N, keys))
            ],
        )

    def _hide_far(self, hidden: Tensor, rows: slice, cols: slice) -> Tensor:
        """Hides near keys and later ones, by ``Hide``."""
        # Within one residue, the c-th key is before the r-th query if c < r, near it if c = r.
        hidden.fill_(True).triu_()
        return hidden if self.causal else hidden.tril_()


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None,
    out: Tensor,
    lse: Tensor,
    grad: Tensor,
    pattern: _Pattern,
) -> tuple[Tensor, Tensor, Tensor]:
    (B, H, N, _), dtype = q.shape, lse.dtype
    delta = torch.empty_like(lse)  # [B, H, N, 1]
    for rows in blocks(N, pattern.stride):
        grad_i = load(grad, rows, dtype, copy=True).mul_(load(out, rows, dtype))
        delta[:, :, rows] = grad_i.sum(-1, keepdim=True).unflatten(0, (B, H))  # [B·H, n, 1]
        del grad_i
    dq = q.new_zeros(q.shape, dtype=dtype)  # [B, H, N, d]
    dk, dv = k.new_zeros(k.shape, dtype=dtype), v.new_zeros(v.shape, dtype=dtype)
    for tile, pairs in pattern.parts(q, k, mask):
        slope = torch.empty_like(tile.buffer)  # [B·H, n, m]
        for rows, cols in pairs:
            q_i, k_j, v_j = (load(x, at, dtype) for x, at in ((q, rows), (k, cols), (v, cols)))
            grad_i = load(grad, rows, dtype, copy=True)  # [B·H, n, dv]
            p = tile.scores(q_i, k_j, rows, cols)
            p.sub_(load(lse, rows, dtype)).exp_()
            load(dv, cols, dtype).baddbmm_(p.mT, grad_i)
            ds = slope[:, : p.shape[1], : p.shape[2]].baddbmm_(grad_i, v_j.mT, beta=0)
            ds.sub_(load(delta, rows, dtype)).mul_(p)
            load(dq, rows, dtype).baddbmm_(ds, k_j, alpha=pattern.scale)
            load(dk, cols, dtype).baddbmm_(ds.mT, q_i, alpha=pattern.scale)
            del q_i, k_j, v_j, grad_i, p, ds
        del tile, slope
    dq = dq.to(q.dtype)
    dk = dk.to(q.dtype)
    return dq, dk, dv.to(q.dtype)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, pattern: _Pattern
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    (B, H, N, _), dv = q.shape, v.shape[3]
    dtype = torch.promote_types(q.dtype, torch.float32)
    acc = q.new_zeros(B, H, N, dv, dtype=dtype)  # [B, H, N, dv]
    row_max, row_sum = new_sums(acc)  # [B, H, N, 1]
    for tile, pairs in pattern.parts(q, k, mask):
        for rows, cols in pairs:
            q_i, k_j = load(q, rows, dtype), load(k, cols, dtype)
            p = tile.scores(q_i, k_j, rows, cols)
            del k_j
            take_in(p, v, cols, *(load(x, rows, dtype) for x in (acc, row_max, row_sum)))  # views
            del q_i, p  # before the next ones are made
        del tile
    row_sum.clamp_(min=1)  # no change unless no key is seen: the largest score alone adds 1
    out = acc.div_(row_sum).to(q.dtype)
    return out, (out, row_max.add_(row_sum.log_()))


_STRIDE = "(stride + max(0, 1 - stride)*ceil(N^(1/2)))"  # one that is not given is 0
_AHEAD = f"(1 - causal)*({_STRIDE} - 1)"
# Queries by keys in the largest block of near and of far keys.
_NEAR_ROWS = f"min({_STRIDE}, N, M + {_STRIDE} - 1)"
_NEAR = (_NEAR_ROWS, f"min(M, N + {_AHEAD}, {_NEAR_ROWS} + {_STRIDE} - 1 + {_AHEAD})")
_FAR = (f"ceil(N/{_STRIDE})", f"ceil((causal*min(N, M) + (1 - causal)*M)/{_STRIDE})")
_ROW = f"B*H*N*{WIDE}"


def _tile(kind: tuple[str, str]) -> dict[str, str]:
    n, m = kind
    return {
        "tile": f"B*H*{n}*{m}*{WIDE}",
        "hidden": f"{n}*{m}",
        "-inf": f"min(1, mask)*{WIDE}",
        "q_i": f"{HALF}*B*H*{n}*d*{WIDE}",
    }


def _softmax(name: str, kind: tuple[str, str]) -> tuple[Phase, ...]:
    n, m = (f"B*H*{size}*{WIDE}" for size in kind)
    held = {**_SUMS, **_tile(kind)}
    return (
        Phase(f"{name} scores", {**held, "k_j": f"{HALF}*{m}*d"}),
        Phase(f"{name} softmax", {**held, "new_max, largest or sum": f"2*{n}"}),
        Phase(f"{name} acc", {**held, "new_max": n, "v_j": f"{HALF}*{m}*dv"}),
    )


_OUT = "B*H*N*dv*itemsize"
_SUMS = {"acc": f"{_ROW}*dv", "row_max, row_sum": f"2*{_ROW}"}
_FORWARD = (
    *_softmax("near", _NEAR),
    *_softmax("far", _FAR),
    Phase("acc.to(q.dtype)", {**_SUMS, "out": f"{HALF}*{_OUT}"}),
)
_KEPT = {**LOSS, "out": _OUT, "lse, delta": f"2*{_ROW}"}
_DQ, _DK, _DV = f"{_ROW}*d", f"B*H*M*d*{WIDE}", f"B*H*M*dv*{WIDE}"


def _gradients(name: str, kind: tuple[str, str]) -> Phase:
    n, m = (f"B*H*{size}*{WIDE}" for size in kind)
    pair = {**_tile(kind), "slope": f"{n}*{kind[1]}", "grad_i": f"{n}*dv"}
    held = {**_KEPT, "dq": _DQ, "dk": _DK, "dv": _DV, **pair}
    return Phase(f"{name} gradients", {**held, "k_j, v_j": f"{HALF}*{m}*(d + dv)"})


_BLOCK = f"B*H*min({_STRIDE}, N)*{WIDE}"
_DELTA = {"grad_i": f"{_BLOCK}*dv", "out_i or its sum": f"{_BLOCK}*max(1, {HALF}*dv)"}
_NARROW = {**_KEPT, "narrow dq": f"{HALF}*B*H*N*d*itemsize", "dk": _DK, "dv": _DV}
_NARROWER = {**_NARROW, "dq": f"(1 - {HALF})*{_DQ}"}
_BACKWARD = (
    Phase("delta", {**_KEPT, **_DELTA}),
    _gradients("near", _NEAR),
    _gradients("far", _FAR),
    Phase("dq.to(q.dtype)", {**_NARROW, "dq": _DQ}),
    Phase("dk.to(q.dtype)", {**_NARROWER, "narrow dk": f"{HALF}*B*H*M*d*itemsize"}),
    Phase(
        "dv.to(q.dtype)",
        {**_NARROWER, "dk": "B*H*M*d*itemsize", "narrow dv": f"{HALF}*B*H*M*dv*itemsize"},
    ),
)
_DEFAULTS = {"causal": 0, "mask": 0, "stride": 0}
MODEL = kernel_model("strided", _FORWARD, _FORWARD + _BACKWARD, _DEFAULTS)


def _near_and_far(behind: Any) -> Any:
    """Keys less than √N away, and keys a multiple of √N away."""
    stride = math.ceil(math.sqrt(len(behind)))
    return (abs(behind) < stride) | (behind % stride == 0)


KERNEL = Kernel("strided", attention, MODEL, mask=True, pattern=_near_and_far)
