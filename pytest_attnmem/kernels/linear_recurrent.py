"""Causal linear attention as a recurrent network: one d×dv state, one position at a time."""

from __future__ import annotations

import torch
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import check_inputs
from .kernel import Kernel
from .linear_chunked import EPS, ONE, Chunk, features, values
from .memory_terms import LOSS, OUT, WIDE, K, Q, V, kernel_model
from .recorded import recorded


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = True, eps: float = 1e-6) -> Tensor:
    """Linear attention of query i to the keys 0 … i, with features φ = elu + 1 → [B, H, N, dv].

    Memory is O(N·dv) for the output and O(d·dv) for the state, time O(N·d·dv) in N steps. For the
    backward pass it keeps q, k, v, the output and each row's sum of weights, [B, H, N], and no
    state: dq takes the states in their order once more, dk and dv take those of the gradient in
    reverse. The state is float32 for half inputs.

    Args:
        q: [B, H, N, d].
        k: [B, H, M, d]; keys past N are seen by no query, and queries past M see all keys.
        v: [B, H, M, dv].
        causal: Must be True; ``linear`` is bidirectional.
        eps: Added to the sum of weights, which is 0 if all features are 0.

    Raises:
        ValueError: the inputs do not fit together, or ``causal`` is False.

    O(N·d + d²) memory, O(N·d²) time: Katharopoulos et al., 2020 (arXiv 2006.16236), Transformers
    are RNNs: Fast Autoregressive Transformers with Linear Attention, sections 3.3 and 3.4.
    """
    check_inputs(q, k, v)
    if not causal:
        raise ValueError("causal must be True in linear-recurrent, got False; linear is the one")
    return recorded("linear-recurrent", _forward, _backward, eps, q, k, v)


def _forward(q: Tensor, k: Tensor, v: Tensor, eps: float) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    (B, H, N, d), (M, dv) = q.shape, v.shape[2:]
    dtype = torch.promote_types(q.dtype, torch.float32)
    out = q.new_empty(B, H, N, dv)  # [B, H, N, dv]
    norm = q.new_empty(B, H, N, dtype=dtype)  # [B, H, N]
    # The sum of weights is what a column of ones in v is mapped to.
    state = q.new_zeros(B * H, d, dv + 1, dtype=dtype)  # [B·H, d, dv + 1]
    for t in range(N):
        at = slice(t, t + 1)
        if t < M:
            state.baddbmm_(features(k, at, dtype).mT, values(v, at, dtype, 1))
        total = features(q, at, dtype) @ state  # [B·H, 1, dv + 1]
        total[..., dv:].add_(eps)
        norm[:, :, t] = total[:, 0, dv].unflatten(0, (B, H))
        out[:, :, t] = total[:, 0, :dv].div_(total[:, 0, dv:]).unflatten(0, (B, H))
        del total  # before the next one is made
    return out, (out, norm)


def _backward(
    q: Tensor, k: Tensor, v: Tensor, out: Tensor, norm: Tensor, grad: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    saved = Chunk(q, k, v, out, norm, grad)
    return _query_gradient(saved), *_key_gradients(saved)


def _query_gradient(saved: Chunk) -> Tensor:
    (B, H, N, _), M, dtype = saved.q.shape, saved.k.shape[2], saved.norm.dtype
    dq = torch.empty_like(saved.q)  # [B, H, N, d]
    state = saved.state()
    for t in range(N):
        at = slice(t, t + 1)
        if t < M:
            state.baddbmm_(features(saved.k, at, dtype).mT, values(saved.v, at, dtype, -1))
        step = saved.slopes(at) @ state.mT  # [B·H, 1, d]
        step.mul_(features(saved.q, at, dtype).clamp_(max=1))  # φ' = min(φ, 1)
        dq[:, :, t] = step.squeeze(1).unflatten(0, (B, H))
        del step
    return dq


def _key_gradients(saved: Chunk) -> tuple[Tensor, Tensor]:
    (B, H, N, _), (M, dv), dtype = saved.q.shape, saved.v.shape[2:], saved.norm.dtype
    # Zeros, because keys past N are never reached.
    k_gradient, v_gradient = torch.zeros_like(saved.k), torch.zeros_like(saved.v)
    state = saved.state()  # of queries and slopes, from the last position up
    for t in reversed(range(N)):
        at = slice(t, t + 1)
        state.baddbmm_(features(saved.q, at, dtype).mT, saved.slopes(at))
        if t >= M:
            continue
        key = features(saved.k, at, dtype)  # [B·H, 1, d]
        step = key @ state[..., :dv]  # [B·H, 1, dv]
        v_gradient[:, :, t] = step.squeeze(1).unflatten(0, (B, H))
        del step
        step = values(saved.v, at, dtype, -1) @ state.mT  # [B·H, 1, d]
        k_gradient[:, :, t] = step.mul_(key.clamp_(max=1)).squeeze(1).unflatten(0, (B, H))
        del key, step
    return k_gradient, v_gradient


_KEY, _VALUE = f"B*H*d*{WIDE}", f"B*H*(dv + 1)*{WIDE}"
_KEPT = {"out": OUT, "norm": f"B*H*N*{WIDE}", "state": f"B*H*d*(dv + 1)*{WIDE}"}

_FORWARD = (
    Phase("features", {**_KEPT, "key": _KEY}, ONE),
    Phase("state", {**_KEPT, "key": _KEY, "value": _VALUE}),
    Phase("total", {**_KEPT, "query": _KEY, "total": _VALUE}),
    Phase("norm", {**_KEPT, "total": _VALUE}, EPS),
)

_SAVED = {**LOSS, **_KEPT, "q gradient": Q}
_ALL = {**_SAVED, "k gradient": K, "v gradient": V}
_OUT = {"out at t, its sum": _VALUE}
_BACKWARD = (
    Phase("state again", {**_SAVED, "key": _KEY, "value": _VALUE}),
    Phase("slope", {**_SAVED, **_OUT, "slope": _VALUE}),
    Phase("q gradient", {**_SAVED, "slope": _VALUE, "step": _KEY}),
    Phase("q features", {**_SAVED, "step": _KEY, "query": _KEY}, ONE),
    Phase("state of the gradient", {**_ALL, "query": _KEY, **_OUT, "slope": _VALUE}),
    Phase("k features", {**_ALL, "key": _KEY}, ONE),
    Phase("v gradient", {**_ALL, "key": _KEY, "step": f"B*H*dv*{WIDE}"}),
    Phase("k gradient", {**_ALL, "key": _KEY, "value": _VALUE, "step": _KEY}),
)

MODEL = kernel_model("linear-recurrent", _FORWARD, _FORWARD + _BACKWARD)

KERNEL = Kernel("linear-recurrent", attention, MODEL, causal=(True,), softmax=False)
