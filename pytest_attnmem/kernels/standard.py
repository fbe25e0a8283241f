"""Softmax attention with scores and weights in full."""

from __future__ import annotations

from typing import Literal, overload

import torch
from torch import Tensor

from ..budgets.memory_model import Phase
from .input_checks import check_inputs
from .kernel import Kernel
from .memory_terms import LOSS, OUT, K, Q, V, kernel_model


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: Tensor | None = None,
    return_weights: Literal[False] = False,
) -> Tensor: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: Tensor | None = None,
    return_weights: Literal[True],
) -> tuple[Tensor, Tensor]: ...
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: Tensor | None = None,
    return_weights: bool = False,
) -> Tensor | tuple[Tensor, Tensor]:
    """``softmax(scale * q @ k.T) @ v`` → out [B, H, N, dv], and weights [B, H, N, M] if requested.

    Args:
        q: [B, H, N, d].
        k: [B, H, M, d].
        v: [B, H, M, dv].
        causal: Query i sees only the keys 0 … i.
        scale: The factor of the scores, ``d ** -0.5`` by default.
        mask: Broadcastable to [B, H, N, M]: bool, True for a visible key, or of q's dtype, added
            to the scores. A query that sees no key gets zeros, as do its weights.
        return_weights: Return ``(out, weights)``.

    Raises:
        ValueError: shapes or dtypes do not fit together.

    O(N² + N·d) memory, O(N²·d) time: Vaswani et al., 2017 (arXiv 1706.03762), Attention Is All
    You Need, section 3.2.1.
    """
    check_inputs(q, k, v, mask)
    N, M = q.shape[2], k.shape[2]
    scores = q @ k.mT  # [B, H, N, M]
    scores.mul_(q.shape[3] ** -0.5 if scale is None else scale)
    if causal:
        future = torch.ones(N, M, dtype=torch.bool, device=q.device).triu_(1)  # [N, M]
        scores.masked_fill_(future, -torch.inf)
        del future
    if mask is not None:
        if mask.dtype == torch.bool:
            scores = torch.where(mask, scores, -torch.inf)  # [B, H, N, M]
        else:
            scores.add_(mask)
    weights = scores.softmax(-1)  # [B, H, N, M]
    if mask is not None:
        blind = scores.detach().amax(-1, keepdim=True).isneginf()  # [B, H, N, 1]
        # Softmax of no keys at all is 0/0. Its weights become zero behind autograd's back: that
        # saves a second score matrix, and from zero weights backward computes zero gradients.
        weights.data.masked_fill_(blind, 0)
        del blind
    out = weights @ v  # [B, H, N, dv]
    return (out, weights) if return_weights else out


SCORES = "B*H*N*M*itemsize"
FUTURE = {"future": "causal*N*M"}

# On the CPU a scale is a double, and float32 is multiplied by a copy of it in its own dtype.
SCALE = {"scale": "8"}
COPIED = {"scale": "8", "its copy": "min(itemsize, 8 - itemsize)"}
# The gradient from sum() has no strides. The product copies a head of it at a time into a proper
# matrix, unless all is too small for a library call.
_HEAD = {"gradient of one head": "N*dv*itemsize * min(1, N*M*dv//400)"}


_MASKED = {"masked": f"min(1, mask)*{SCORES}"}


def scores_and_weights(
    again: str, held: dict[str, str], future: dict[str, str], scale: dict[str, str]
) -> tuple[Phase, ...]:
    """The phases of the body up to its weights.

    ``held`` is alive beside it; ``future`` and ``scale`` are kept of the causal mask and the scale.
    """
    scores = {**held, "scores": SCORES}
    both = {**scores, **future, "weights": SCORES}
    blind = {"largest scores": "min(1, mask)*B*H*N*itemsize", "blind": "min(1, mask)*B*H*N"}
    cpu = {"cpu": scale}
    return (
        Phase(f"scores.mul_(scale){again}", scores, {"cpu": COPIED}),
        Phase(f"causal{again}", {**scores, **FUTURE}, cpu),
        Phase(
            f"mask{again}", {**scores, **future, **_MASKED, "-inf": "min(1, mask)*itemsize"}, cpu
        ),
        Phase(f"softmax{again}", both, cpu),
        Phase(f"blind queries{again}", {**both, **blind}, cpu),
    )


def _forward(future: dict[str, str], scale: dict[str, str]) -> tuple[Phase, ...]:
    """The phases of the body, given what is kept of the causal mask and the scale for backward."""
    weights = {"scores": SCORES, **future, "weights": SCORES}
    return (
        Phase("scores = q @ k.mT", {"scores": SCORES}),
        *scores_and_weights("", {}, future, scale),
        Phase("out = weights @ v", {**weights, "out": OUT}, {"cpu": scale}),
    )


_GRAD_V = {"v gradient": V, **LOSS}
_GRADS = {**_GRAD_V, "scores gradient": SCORES}
#: The backward phases from the weights on, of checkpointed attention as well.
FROM_WEIGHTS = (
    Phase(
        "weights gradient",
        {"weights": SCORES, "weights gradient": SCORES, **_GRAD_V, **FUTURE},
        {"cpu": {**SCALE, **_HEAD}},
    ),
    Phase(
        "softmax backward",
        {"weights": SCORES, "weights gradient": SCORES, **_GRADS, **FUTURE},
        # CUDA multiplies the two before it sums (aten/src/ATen/native/cuda/SoftMax.cu).
        {"cpu": SCALE, "cuda": {"gradient times weights": SCORES}},
    ),
    Phase(
        "mask backward",
        {**_GRADS, **FUTURE, **_MASKED, "zero": "min(1, mask)*itemsize"},
        {"cpu": SCALE},
    ),
    Phase("causal backward", {**_GRADS, **FUTURE, "masked": f"causal*{SCORES}"}, {"cpu": SCALE}),
    Phase("scale backward", {**_GRADS, "scaled": SCORES}, {"cpu": COPIED}),
    Phase("scores backward", {**_GRADS, "k.mT gradient": K, "q gradient": Q}),
    Phase(
        "k gradient",
        {
            **_GRAD_V,
            "q gradient": Q,
            "k.mT gradient": K,
            # Made transposed, then copied into k's own layout if that is another.
            "k gradient": f"{K} * min(1, (M - 1)*(d - 1))",
        },
    ),
)
_BACKWARD = (
    Phase(
        "out.sum()",
        {"weights": SCORES, "out": OUT, **FUTURE, "loss": "itemsize"},
        {"cpu": SCALE},
    ),
    *FROM_WEIGHTS,
)

DEFAULTS = {"causal": 0, "mask": 0}
MODEL = kernel_model("standard", _forward({}, {}), _forward(FUTURE, SCALE) + _BACKWARD, DEFAULTS)

KERNEL = Kernel("standard", attention, MODEL, mask=True)
