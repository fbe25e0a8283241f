"""Causal linear attention as a parallel scan: all chunks at once, a checkpointed state for each."""

from __future__ import annotations

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import at_least_one, check_inputs
from .kernel import Kernel
from .linear_chunked import EPS, ONE
from .memory_terms import LOSS, OUT, WIDE, K, Q, V, kernel_model
from .recorded import recorded

BLOCK = 64


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = True,
    eps: float = 1e-6,
    block: int = BLOCK,
) -> Tensor:
    """Linear attention of query i to the keys 0 … i, with features φ = elu + 1 → [B, H, N, dv].

    Memory is O(N·(d + dv + block) + N/block·d·dv), least where block is √(d·dv), and the depth
    O(log(N/block)): each chunk's sum over its keys is made at once, and a scan turns them into the
    states before each. The backward pass keeps those, q, k, v, the output and a factor for
    each row, [B, H, N]; all within a chunk is computed again. Work is in float32 for half inputs.

    Args:
        q: [B, H, N, d].
        k: [B, H, M, d]; keys past N are seen by no query, and queries past M see all keys.
        v: [B, H, M, dv].
        causal: Must be True; ``linear`` is bidirectional.
        eps: Added to the sum of weights, which is 0 if all features are 0.
        block: Positions from one checkpointed state to the next.

    Raises:
        ValueError: the inputs do not fit together, ``causal`` is False, or a chunk has no rows.

    O(N·(d + d²/block)) memory, O(N·d²) time: Katharopoulos et al., 2020 (arXiv 2006.16236),
    Transformers are RNNs; the scan of Brent and Kung, 1982, A Regular Layout for Parallel Adders.
    """
    check_inputs(q, k, v)
    if not causal:
        raise ValueError("causal must be True in linear-scan, got False; linear is the one")
    at_least_one(block=block)
    size = max(1, min(block, q.shape[2]))
    return recorded("linear-scan", _forward, _backward, (eps, size), q, k, v)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, how: tuple[float, int]
) -> tuple[Tensor, tuple[Tensor, Tensor, Tensor]]:
    eps, size = how
    (B, H, N, d), dv = q.shape, v.shape[3]
    chunks = _Chunks(q, size)
    keys, values = chunks.features(k), chunks.values(v)
    states = keys.new_zeros(chunks.count, B * H, d, dv + 1)  # [G, B·H, d, dv + 1]
    if chunks.count > 1:
        states[1:].flatten(0, 1).baddbmm_(_all(keys[:-1]).mT, _all(values[:-1]), beta=0)
        _scan(states, range(chunks.count))
    queries = chunks.features(q)
    weights = torch.bmm(_all(queries), _all(keys).mT).tril_()  # [G·B·H, C, C]
    del keys
    total = torch.bmm(weights, _all(values))  # [G·B·H, C, dv + 1]
    del weights, values
    total.baddbmm_(_all(queries), _all(states))
    del queries
    total[..., dv:].add_(eps).reciprocal_()
    total[..., :dv].mul_(total[..., dv:])
    out = chunks.merge(total[..., :dv], q.new_empty(B, H, N, dv))  # [B, H, N, dv]
    factor = chunks.merge(total[..., dv:], total.new_empty(B, H, N, 1))  # [B, H, N, 1]
    return out, (out, factor, states)


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    factor: Tensor,
    states: Tensor,
    grad: Tensor,
    how: tuple[float, int],
) -> tuple[Tensor, Tensor, Tensor]:
    dv = v.shape[3]
    chunks = _Chunks(q, how[1])
    # With o = a/s, a the weighted sum and s that of weights: da = do/s and ds = -do·o/s.
    slopes = chunks.split(grad, dv + 1)  # [G, B·H, C, dv + 1]
    slopes[..., :dv].mul_(chunks.split(factor, 1))
    products = chunks.split(out, dv).mul_(slopes[..., :dv])  # [G, B·H, C, dv]
    slopes[..., dv] = products.sum(-1).neg_()  # [G, B·H, C]
    del products
    slopes = _all(slopes)
    queries, keys = _all(chunks.features(q)), _all(chunks.features(k))
    values = _all(chunks.values(v))

    inner = torch.bmm(slopes, values.mT).tril_()  # [G·B·H, C, C], the gradient of the weights
    step = torch.bmm(inner, keys)  # [G·B·H, C, d]
    step.baddbmm_(slopes, _all(states).mT).mul_(queries.clamp(max=1))  # φ' = min(φ, 1)
    q_gradient = chunks.merge(step, q.new_empty(q.shape))  # [B, H, N, d]
    del step

    future = torch.zeros_like(states)  # [G, B·H, d, dv + 1], of the queries after each chunk
    if chunks.count > 1:
        later = slice(states.shape[1], None)
        future[:-1].flatten(0, 1).baddbmm_(queries[later].mT, slopes[later], beta=0)
        _scan(future, range(chunks.count)[::-1])
    future = _all(future)
    step = torch.bmm(inner.mT, queries)  # [G·B·H, C, d]
    step.baddbmm_(values, future.mT)
    del values
    step.mul_(keys.clamp(max=1))
    k_gradient = chunks.merge(step, k.new_zeros(k.shape))  # [B, H, M, d], zeros past N
    del step

    torch.bmm(queries, keys.mT, out=inner).tril_()  # the weights
    del queries
    step = torch.bmm(inner.mT, slopes[..., :dv])  # [G·B·H, C, dv]
    step.baddbmm_(keys, future[..., :dv])
    del inner, slopes, keys, future
    v_gradient = chunks.merge(step, v.new_zeros(v.shape))  # [B, H, M, dv], zeros past N
    return q_gradient, k_gradient, v_gradient


def _scan(x: Tensor, order: range) -> None:
    """Sums over the first dimension up to each element, in ``order``, in place and in log depth."""
    total = len(order)
    stride = 1
    while stride < total:
        _add(x, order[2 * stride - 1 :: 2 * stride], order[stride - 1 : -stride : 2 * stride])
        stride *= 2
    while stride > 1:
        stride //= 2
        _add(x, order[3 * stride - 1 :: 2 * stride], order[2 * stride - 1 : -stride : 2 * stride])


def _add(x: Tensor, to: range, of: range) -> None:
    if len(to):
        x[_rising(to)].add_(x[_rising(of)])


def _rising(indices: range) -> slice:
    first, last = sorted((indices[0], indices[-1]))
    return slice(first, last + 1, abs(indices.step))


class _Chunks:
    """N positions cut into G chunks of C, the last filled up with zeros: [G, B·H, C, …]."""

    def __init__(self, q: Tensor, size: int) -> None:
        self.length, self.size = q.shape[2], size
        self.count = -(-self.length // size)
        self.dtype = torch.promote_types(q.dtype, torch.float32)

    def split(self, x: Tensor, width: int, fill: int = 0) -> Tensor:
        """Returns a copy of x [B, H, …, w] in chunks of ``width`` columns, new ones of ``fill``."""
        B, H, _, w = x.shape
        chunks = x.new_zeros(self.count, B * H, self.size, width, dtype=self.dtype)
        for whole, part in self._parts(x, chunks):
            part[..., :w] = whole
            part[..., w:].fill_(fill)
        return chunks

    def features(self, x: Tensor) -> Tensor:
        """Returns φ(x) in chunks; padding has the features 1, so its values must be 0."""
        return F.elu(self.split(x, x.shape[3]), inplace=True).add_(1)

    def values(self, v: Tensor) -> Tensor:
        """Returns v in chunks, with a column of ones whose output is the sum of weights."""
        return self.split(v, v.shape[3] + 1, 1)

    def merge(self, chunks: Tensor, out: Tensor) -> Tensor:
        """Returns ``out`` [B, H, …] filled with the chunks [G·B·H, C, …], without padding."""
        chunks = chunks.unflatten(0, (self.count, chunks.shape[0] // max(1, self.count)))
        for whole, part in self._parts(out, chunks):
            whole.copy_(part)
        return out

    def _parts(self, x: Tensor, chunks: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields matching views of x and of the chunks: all full chunks, then the rest."""
        rows = x.flatten(0, 1)[:, : self.length]
        full, rest = divmod(rows.shape[1], self.size)
        if full:
            whole = rows[:, : full * self.size].unflatten(1, (full, self.size))
            yield whole.transpose(0, 1), chunks[:full]
        if rest:
            yield rows[:, full * self.size :], chunks[full, :, :rest]


def _all(chunks: Tensor) -> Tensor:
    """Returns all chunks as one batch, [G·B·H, …]."""
    return chunks.flatten(0, 1)


_SIZE = "max(1, min(block, N))"
_COUNT = f"ceil(N/{_SIZE})"
_ROWS = f"B*H*{_COUNT}*{_SIZE}*{WIDE}"  # bytes of a column, filled up to whole chunks
_QUERIES, _KEYS = {"queries": f"{_ROWS}*d"}, {"keys": f"{_ROWS}*d"}
_VALUES, _WEIGHTS = {"values": f"{_ROWS}*(dv + 1)"}, {"weights": f"{_ROWS}*{_SIZE}"}
_STATE = f"B*H*{_COUNT}*d*(dv + 1)*{WIDE}"
_STATES = {"states": _STATE}
_TOTAL = {"total": f"{_ROWS}*(dv + 1)"}
_KEPT = {**_STATES, "out": OUT, "factor": f"B*H*N*{WIDE}"}

_FORWARD = (
    Phase("keys", _KEYS, ONE),
    Phase("queries", {**_KEYS, **_VALUES, **_STATES, **_QUERIES}, ONE),
    Phase("weights", {**_KEYS, **_VALUES, **_STATES, **_QUERIES, **_WEIGHTS}),
    Phase("total", {**_VALUES, **_STATES, **_QUERIES, **_WEIGHTS, **_TOTAL}),
    Phase("factor", {**_STATES, **_TOTAL}, EPS),
    Phase("out", {**_KEPT, **_TOTAL}),
)

_SLOPES = {**LOSS, **_KEPT, "slopes": f"{_ROWS}*(dv + 1)"}
_CHUNKS = {**_SLOPES, **_QUERIES, **_KEYS}
_ALL = {**_CHUNKS, **_VALUES, **_WEIGHTS}
_DQ, _DK = {"q gradient": Q}, {"k gradient": K}
_STEP = {"step": f"{_ROWS}*d"}
_FUTURE = {"future": _STATE}
_BACKWARD = (
    Phase("factor of slopes", {**_SLOPES, "factor in chunks": _ROWS}),
    Phase("products", {**_SLOPES, "products, their sum": f"{_ROWS}*(dv + 1)"}),
    Phase("features", _CHUNKS, ONE),
    Phase("q features", {**_ALL, **_STEP, "slope of the features": f"{_ROWS}*d"}),
    Phase("q gradient", {**_ALL, **_STEP, **_DQ}),
    Phase("future", {**_ALL, **_DQ, **_FUTURE, **_STEP}),
    Phase(
        "k features",
        {**_CHUNKS, **_WEIGHTS, **_DQ, **_FUTURE, **_STEP, "slope of the features": f"{_ROWS}*d"},
    ),
    Phase("k gradient", {**_CHUNKS, **_WEIGHTS, **_DQ, **_FUTURE, **_STEP, **_DK}),
    Phase(
        "values' step",
        {**_SLOPES, **_KEYS, **_WEIGHTS, **_DQ, **_DK, **_FUTURE, "step": f"{_ROWS}*dv"},
    ),
    Phase(
        "v gradient",
        {**LOSS, **_KEPT, **_DQ, **_DK, "step": f"{_ROWS}*dv", "v gradient": V},
    ),
)

_DEFAULTS = {"block": BLOCK}
MODEL = kernel_model("linear-scan", _FORWARD, _FORWARD + _BACKWARD, _DEFAULTS)

KERNEL = Kernel("linear-scan", attention, MODEL, causal=(True,), softmax=False)
