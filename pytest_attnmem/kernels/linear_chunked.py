"""Causal linear attention by chunks: scores within a chunk, a d×dv state from one to the next."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import at_least_one, check_inputs
from .kernel import Kernel
from .memory_terms import LOSS, OUT, WIDE, K, Q, V, kernel_model
from .recorded import blocks, load, recorded

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

    Memory is O(N·dv) for the output and O(block·(block + d + dv) + d·dv) for the work on a chunk,
    time O(N·(block·(d + dv) + d·dv)). The backward pass keeps q, k, v, the output and each
    row's sum of weights, [B, H, N], and no state: dq takes the states in their order once more, dk
    and dv take those of the gradient in reverse. Within a chunk all is float32 for half inputs.

    Args:
        q: [B, H, N, d].
        k: [B, H, M, d]; keys past N are seen by no query, and queries past M see all keys.
        v: [B, H, M, dv].
        causal: Must be True; ``linear`` is bidirectional.
        eps: Added to the sum of weights, which is 0 if all features are 0.
        block: Positions in a chunk.

    Raises:
        ValueError: the inputs do not fit together, ``causal`` is False, or a chunk has no rows.

    O(N·d + block² + d²) memory, O(N·d·(block + d)) time: Hua et al., 2022 (arXiv 2202.10447),
    Transformer Quality in Linear Time, section 3; the gradients as in Katharopoulos et al
    , 2020 (arXiv 2006.16236), Transformers are RNNs.
    """
    check_inputs(q, k, v)
    if not causal:
        raise ValueError("causal must be True in linear-chunked, got False; linear is the one")
    at_least_one(block=block)
    return recorded("linear-chunked", _forward, _backward, (eps, block), q, k, v)


def _forward(
    q: Tensor, k: Tensor, v: Tensor, how: tuple[float, int]
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    eps, block = how
    (B, H, N, d), dv = q.shape, v.shape[3]
    dtype = torch.promote_types(q.dtype, torch.float32)
    out = q.new_empty(B, H, N, dv)  # [B, H, N, dv]
    norm = q.new_empty(B, H, N, dtype=dtype)  # [B, H, N]
    # The sum of weights is what a column of ones in v is mapped to.
    state = q.new_zeros(B * H, d, dv + 1, dtype=dtype)  # [B·H, d, dv + 1]
    for rows in blocks(N, block):
        keys, sums = features(k, rows, dtype), values(v, rows, dtype, 1)
        queries = features(q, rows, dtype)  # [B·H, n, d]
        weights = (queries @ keys.mT).tril_()  # [B·H, n, m]
        total = weights @ sums  # [B·H, n, dv + 1]
        total.baddbmm_(queries, state)
        state.baddbmm_(keys.mT, sums)
        del keys, sums, queries, weights
        total[..., dv:].add_(eps)
        norm[:, :, rows] = total[..., dv].unflatten(0, (B, H))
        out[:, :, rows] = total[..., :dv].div_(total[..., dv:]).unflatten(0, (B, H))
        del total  # before the next one is made
    return out, (out, norm)


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    out: Tensor,
    norm: Tensor,
    grad: Tensor,
    how: tuple[float, int],
) -> tuple[Tensor, Tensor, Tensor]:
    chunk = Chunk(q, k, v, out, norm, grad)
    cut = blocks(grad.shape[2], how[1])
    return _query_gradient(chunk, cut), *_key_gradients(chunk, cut)


@dataclass(frozen=True, slots=True)
class Chunk:
    """The tensors that the gradients of a chunk are computed from."""

    q: Tensor
    k: Tensor
    v: Tensor
    out: Tensor
    norm: Tensor
    grad: Tensor

    def state(self) -> Tensor:
        """Returns the state before the first key: zeros."""
        BH, d, dv = self.q.shape[0] * self.q.shape[1], self.q.shape[3], self.v.shape[3]
        return self.norm.new_zeros(BH, d, dv + 1)  # [B·H, d, dv + 1]

    def slopes(self, rows: slice) -> Tensor:
        """Returns the gradient of the output of v's columns.

        With o = a/s, a the weighted sum and s that of weights: da = do/s and ds = -do·o/s. The sign
        of ds is in v's last column, which is -1.
        """
        dv = self.v.shape[3]
        out = load(self.out, rows, self.norm.dtype, copy=True)  # [B·H, n, dv]
        slopes = out.new_empty(*out.shape[:2], dv + 1)  # [B·H, n, dv + 1]
        slopes[..., :dv] = self.grad[:, :, rows].flatten(0, 1)
        slopes[..., :dv].div_(self.norm[:, :, rows].flatten(0, 1).unsqueeze(-1))
        slopes[..., dv] = out.mul_(slopes[..., :dv]).sum(-1)  # [B·H, n]
        return slopes

    def load(self, rows: slice) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns the features of q and k, v, and the slopes."""
        dtype, slopes = self.norm.dtype, self.slopes(rows)
        queries, keys = features(self.q, rows, dtype), features(self.k, rows, dtype)
        return queries, keys, values(self.v, rows, dtype, -1), slopes


def _query_gradient(chunk: Chunk, cut: list[slice]) -> Tensor:
    B, H = chunk.q.shape[:2]
    dq = torch.empty_like(chunk.q)  # [B, H, N, d]
    state = chunk.state()
    for rows in cut:
        queries, keys, values, slopes = chunk.load(rows)
        inner = (slopes @ values.mT).tril_()  # [B·H, n, m], the gradient of the weights
        step = inner @ keys  # [B·H, n, d]
        step.baddbmm_(slopes, state.mT)
        state.baddbmm_(keys.mT, values)
        dq[:, :, rows] = step.mul_(queries.clamp_(max=1)).unflatten(0, (B, H))  # φ' = min(φ, 1)
        del queries, keys, values, slopes, inner, step
    return dq


def _key_gradients(chunk: Chunk, cut: list[slice]) -> tuple[Tensor, Tensor]:
    (B, H), dv = chunk.q.shape[:2], chunk.v.shape[3]
    # Zeros, because keys past N are in no chunk.
    k_gradient, v_gradient = torch.zeros_like(chunk.k), torch.zeros_like(chunk.v)
    state = chunk.state()  # of queries and slopes, from the last row up
    for rows in reversed(cut):
        queries, keys, values, slopes = chunk.load(rows)
        inner = (queries @ keys.mT).tril_()  # [B·H, n, m], the weights
        step = inner.mT @ slopes[..., :dv]  # [B·H, m, dv]
        step.baddbmm_(keys, state[..., :dv])
        v_gradient[:, :, rows] = step.unflatten(0, (B, H))
        del step
        torch.bmm(slopes, values.mT, out=inner).tril_()  # their gradient
        step = inner.mT @ queries  # [B·H, m, d]
        step.baddbmm_(values, state.mT)
        k_gradient[:, :, rows] = step.mul_(keys.clamp_(max=1)).unflatten(0, (B, H))
        state.baddbmm_(queries.mT, slopes)
        del queries, keys, values, slopes, inner, step
    return k_gradient, v_gradient


def features(x: Tensor, rows: slice, dtype: torch.dtype) -> Tensor:
    """Returns φ(x) of some of the rows."""
    return F.elu(load(x, rows, dtype, copy=True), inplace=True).add_(1)


def values(v: Tensor, rows: slice, dtype: torch.dtype, last: int) -> Tensor:
    """Returns some rows of v, and a column of ``last``."""
    block = v[:, :, rows].flatten(0, 1)  # a view, where B and H are adjacent
    wider = v.new_full((*block.shape[:2], v.shape[3] + 1), last, dtype=dtype)  # [B·H, m, dv + 1]
    wider[..., :-1] = block
    return wider


_ROWS = f"B*H*min(block, N)*{WIDE}"
_COLS = f"B*H*min(block, N, M)*{WIDE}"
_QUERIES = {"queries": f"{_ROWS}*d"}
_KEYS, _VALUES = {"keys": f"{_COLS}*d"}, {"values": f"{_COLS}*(dv + 1)"}
_WEIGHTS = {"weights": f"{_ROWS}*min(block, N, M)"}
_TOTAL = {"total": f"{_ROWS}*(dv + 1)"}
_KEPT = {"out": OUT, "norm": f"B*H*N*{WIDE}", "state": f"B*H*d*(dv + 1)*{WIDE}"}

# On the CPU a Python number takes 8 bytes, and its copy the itemsize of another dtype.
ONE = {"cpu": {"1": "8", "its copy": WIDE}}
EPS = {"cpu": {"eps": "8", "its copy": "4*min(1, 8//itemsize - 1)"}}

_FORWARD = (
    Phase("keys", {**_KEPT, **_KEYS}, ONE),
    Phase("queries", {**_KEPT, **_KEYS, **_VALUES, **_QUERIES}, ONE),
    Phase("total", {**_KEPT, **_KEYS, **_VALUES, **_QUERIES, **_WEIGHTS, **_TOTAL}),
    Phase("norm", {**_KEPT, **_TOTAL}, EPS),
)


def _gradient(of: str, kept: dict[str, str], last: str) -> tuple[Phase, ...]:
    """A pass over the chunks for the gradient of q, or of k and v; ``last`` is its largest step."""
    kept = {**LOSS, **_KEPT, **kept}
    slopes = {**kept, "slopes": f"{_ROWS}*(dv + 1)"}
    return (
        Phase(f"slopes for {of}", {**slopes, "out of the chunk, its sum": f"{_ROWS}*(dv + 1)"}),
        Phase(f"features for {of}", {**slopes, **_QUERIES, **_KEYS}, ONE),
        Phase(
            f"gradient of {of}",
            {**slopes, **_QUERIES, **_KEYS, **_VALUES, **_WEIGHTS, "step": last},
        ),
    )


_DQ = {"q gradient": Q}
_BACKWARD = (
    *_gradient("q", _DQ, f"{_ROWS}*d"),
    *_gradient("k and v", {**_DQ, "k gradient": K, "v gradient": V}, f"{_COLS}*max(d, dv)"),
)

_DEFAULTS = {"block": BLOCK}
MODEL = kernel_model("linear-chunked", _FORWARD, _FORWARD + _BACKWARD, _DEFAULTS)

KERNEL = Kernel("linear-chunked", attention, MODEL, causal=(True,), softmax=False)
