"""Causal linear attention by cumulative sums: a d×dv state for every position, O(N·d·dv)."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import check_inputs
from .kernel import Kernel
from .linear import EPS, FACTOR_BACKWARD, ONE, ROW
from .memory_terms import LOSS, OUT, K, Q, V, kernel_model


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool = True, eps: float = 1e-6) -> Tensor:
    """Linear attention of query i to the keys 0 … i, with features φ = elu + 1 → [B, H, N, dv].

    The state that sums up those keys is there for every i at once: where d·dv > N that is more
    memory than the scores would take. All sums are in the dtype of the inputs: those of float16
    overflow near ``N*d`` = 65504.

    Args:
        q: [B, H, N, d].
        k: [B, H, M, d]; keys past N are seen by no query, and queries past M see all keys.
        v: [B, H, M, dv].
        causal: Must be True; ``linear`` is bidirectional.
        eps: Added to the sum of weights, which is 0 if all features are 0.

    Raises:
        ValueError: the inputs do not fit together, or ``causal`` is False.

    O(N·d²) memory, O(N·d²) time: Katharopoulos et al., 2020 (arXiv 2006.16236), Transformers are
    RNNs: Fast Autoregressive Transformers with Linear Attention.
    """
    check_inputs(q, k, v)
    if not causal:
        raise ValueError("causal must be True in linear-causal, got False; linear is the one")
    N, M = q.shape[2], k.shape[2]
    if M > N:
        k = k[:, :, :N]
    phi_k = F.elu(k).add_(1)  # [B, H, min(N, M), d]
    if M < N:
        phi_k = F.pad(phi_k, (0, 0, 0, N - M))  # [B, H, N, d]
    if M != N:
        v = F.pad(v, (0, 0, 0, N - M))  # [B, H, N, dv]; a copy, which M > N needs in the product
    state = phi_k.unsqueeze(-1) @ v.unsqueeze(-2)  # [B, H, N, d, dv]
    state.cumsum_(2)
    total = phi_k.cumsum(2).unsqueeze(-1)  # [B, H, N, d, 1]
    del phi_k, v
    phi_q = F.elu(q).add_(1).unsqueeze(-2)  # [B, H, N, 1, d]
    # A factor, because a division keeps four outputs' worth of temporaries in its backward pass.
    factor = (phi_q @ total).add_(eps).reciprocal_()  # [B, H, N, 1, 1]
    return (phi_q @ state).mul_(factor).squeeze(-2)  # [B, H, N, dv]


_STATE = "B*H*N*d*dv*itemsize"
_FIRST = "B*H*min(N, M)*d*itemsize"
_SHORT, _UNEQUAL = "min(1, max(0, N - M))", "min(1, max(N - M, M - N))"  # 0 or 1

_KV = {"phi_k": Q, "fitted v": f"{_UNEQUAL}*{OUT}"}


def _forward(kept: dict[str, str]) -> tuple[Phase, ...]:
    """The phases of the body, given what is kept of k and v for backward."""
    rows = {**kept, "state": _STATE, "total": Q, "phi_q": Q}
    return (
        Phase("features of k", {"phi_k": _FIRST}, ONE),
        Phase("padding", {"phi_k": _FIRST, "padded phi_k": f"{_SHORT}*{Q}"}),
        Phase("state", {**_KV, "state": _STATE}),
        Phase("total", {**_KV, "state": _STATE, "total": Q}),
        Phase("features of q", rows, ONE),
        Phase("factor", {**rows, "factor": ROW}, EPS),
        Phase("out", {**rows, "factor": ROW, "out": OUT}),
    )


_KEPT = {**_KV, "total": Q, "phi_q": Q, **LOSS}
_SAVED = {**_KEPT, "state": _STATE, "factor": ROW}
_GRADIENTS = {"state gradient": _STATE, "phi_q gradient": Q}
_BACKWARD = (
    Phase("factor backward", {**_SAVED, **FACTOR_BACKWARD}),
    Phase(
        "numerator backward",
        {**_SAVED, "numerator gradient": OUT, "factor gradient": ROW, **_GRADIENTS},
    ),
    Phase(
        "reciprocal backward",
        {**_KEPT, **_GRADIENTS, "factor": ROW, "factor gradient": ROW, "products": f"3*{ROW}"},
    ),
    Phase(
        "norm backward",
        {
            **_KEPT,
            **_GRADIENTS,
            "its addend": Q,
            "norm gradient": ROW,
            "total gradient": Q,
        },
    ),
    Phase(
        "cumsum backward",
        {
            **_KV,
            **LOSS,
            "q gradient": Q,
            "phi_k gradient": Q,
            "state gradient": _STATE,
            # With one position, this is the gradient itself.
            "flipped, summed, flipped back": f"min(1, N - 1)*3*{_STATE}",
        },
    ),
    Phase(
        "v gradient",
        {
            **LOSS,
            "q gradient": Q,
            "phi_k gradient": Q,
            "gradient of N values": OUT,
            "v gradient": f"{_UNEQUAL}*{V}",
        },
    ),
    Phase(
        "k gradient",
        {**LOSS, "q gradient": Q, "v gradient": V, "phi_k gradient": Q, "k gradient": K},
    ),
)

MODEL = kernel_model("linear-causal", _forward({}), _forward(_KV) + _BACKWARD)

KERNEL = Kernel("linear-causal", attention, MODEL, causal=(True,), softmax=False)
