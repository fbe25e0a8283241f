"""Linear attention: a feature map in place of the softmax, and a d×dv state in place of scores."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import check_inputs
from .kernel import Kernel
from .memory_terms import LOSS, OUT, K, Q, V, kernel_model


def attention(
    q: Tensor, k: Tensor, v: Tensor, *, causal: bool = False, eps: float = 1e-6
) -> Tensor:
    """``φ(q) @ (φ(k).T @ v) / (φ(q) @ φ(k).T.sum() + eps)`` with φ = elu + 1 → [B, H, N, dv].

    Every query sees every key, through a state whose size does not depend on M. All sums are in
    the dtype of the inputs: those of float16 overflow near ``M*d`` = 65504.

    On CUDA the sum over keys takes scratch that ``MODEL`` leaves out: this scratch is not a
    polynomial, and depends on the number of multiprocessors. The simulated backend counts it.

    Args:
        q: [B, H, N, d].
        k: [B, H, M, d].
        v: [B, H, M, dv].
        causal: Must be False; ``linear_causal`` is causal.
        eps: Added to the sum of weights, which is 0 if all features are 0.

    Raises:
        ValueError: the inputs do not fit together, or ``causal`` is asked for.

    O(N·d + d²) memory, O(N·d²) time: Katharopoulos et al., 2020 (arXiv 2006.16236), Transformers
    are RNNs: Fast Autoregressive Transformers with Linear Attention.
    """
    check_inputs(q, k, v)
    if causal:
        raise ValueError("causal must be False in linear, got True; linear-causal is the one")
    phi_k = F.elu(k).add_(1)  # [B, H, M, d]
    state = phi_k.mT @ v  # [B, H, d, dv]
    total = phi_k.sum(2).unsqueeze(-1)  # [B, H, d, 1]
    del phi_k
    phi_q = F.elu(q).add_(1)  # [B, H, N, d]
    # A factor, because a division keeps four outputs' worth of temporaries in its backward pass.
    factor = (phi_q @ total).add_(eps).reciprocal_()  # [B, H, N, 1]
    return (phi_q @ state).mul_(factor)  # [B, H, N, dv]


ROW = "B*H*N*itemsize"
_STATE, _TOTAL = "B*H*d*dv*itemsize", "B*H*d*itemsize"

# On the CPU a Python number takes 8 bytes, and its copy the itemsize of another dtype.
ONE = {"cpu": {"1": "8", "its copy": "itemsize"}}
EPS = {"cpu": {"eps": "8", "its copy": "min(itemsize, 8 - itemsize)"}}
FACTOR_BACKWARD = {
    **{"numerator": OUT, "numerator gradient": OUT, "products": OUT},
    "factor gradient": ROW,
}


def _forward(phi_k: dict[str, str]) -> tuple[Phase, ...]:
    """The phases of the body, given what is kept of the features of k for backward."""
    sums = {"state": _STATE, "total": _TOTAL}
    rows = {**phi_k, **sums, "phi_q": Q}
    return (
        Phase("features of k", {"phi_k": K}, ONE),
        Phase("state, total", {"phi_k": K, **sums}),
        Phase("features of q", rows, ONE),
        Phase("factor", {**rows, "factor": ROW}, EPS),
        Phase("out", {**rows, "factor": ROW, "out": OUT}),
    )


_SAVED = {"phi_k": K, "state": _STATE, "total": _TOTAL, "phi_q": Q, "factor": ROW, **LOSS}
_BOTH = {"phi_k": K, "total": _TOTAL, "phi_q": Q, **LOSS}
_DQ = {"state gradient": _STATE, "phi_q gradient": Q}
_BACKWARD = (
    Phase("factor backward", {**_SAVED, **FACTOR_BACKWARD}),
    Phase(
        "numerator backward",
        {**_SAVED, "numerator gradient": OUT, "factor gradient": ROW, **_DQ},
    ),
    Phase(
        "reciprocal backward",
        {**_BOTH, **_DQ, "factor": ROW, "factor gradient": ROW, "products": f"3*{ROW}"},
    ),
    Phase(
        "norm backward",
        {**_BOTH, **_DQ, "norm gradient": ROW, "total gradient": _TOTAL, "its addend": Q},
    ),
    Phase(
        "state backward",
        {
            **{"phi_k": K, **LOSS, "state gradient": _STATE, "total gradient": _TOTAL},
            **{"q gradient": Q, "v gradient": V, "phi_k gradient": K},
        },
    ),
)

MODEL = kernel_model("linear", _forward({}), _forward({"phi_k": K}) + _BACKWARD)

KERNEL = Kernel("linear", attention, MODEL, causal=(False,), softmax=False)
