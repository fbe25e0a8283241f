"""Standard attention, checkpointed: scores and weights are freed, and computed again."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from ..budgets.memory_model import KernelModel, MemoryModel, Phase
from .input_checks import check_inputs
from .kernel import Kernel


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """``softmax(scale * q @ k.T) @ v`` → [B, H, N, dv]; backward keeps only the inputs.

    Scores and weights are freed in the forward pass. The backward pass computes them again, and
    its peak is the peak of standard attention; the scores of all other layers are saved.

    Args:
        q: [B, H, N, d].
        k: [B, H, M, d].
        v: [B, H, M, dv].
        causal: Query i sees only the keys 0 … i.
        scale: The factor of the scores, ``d ** -0.5`` by default.
        mask: Broadcastable to [B, H, N, M]: bool, True for a visible key, or of q's dtype, added
            to the scores. A query that sees no key gets zeros.

    Raises:
        ValueError: the inputs do not fit together.

    O(N² + N·d) memory, O(N²·d) time: Chen et al., 2016 (arXiv 1604.06174), Training Deep Nets with
    Sublinear Memory Cost.
    """
    check_inputs(q, k, v, mask)
    scale = q.shape[3] ** -0.5 if scale is None else scale
    if not torch.is_grad_enabled():
        return _standard(q, k, v, causal, scale, mask)
    # Without preserve_rng_state, because nothing here is random.
    out: Tensor = checkpoint(
        _standard, q, k, v, causal, scale, mask, use_reentrant=False, preserve_rng_state=False
    )
    return out


def _standard(
    q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float, mask: Tensor | None
) -> Tensor:
    N, M = q.shape[2], k.shape[2]
    scores = q @ k.mT  # [B, H, N, M]
    scores.mul_(scale)
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
    return weights @ v  # [B, H, N, dv]


_SCORES = "B*H*N*M*itemsize"
_Q, _K, _V = "B*H*N*d*itemsize", "B*H*M*d*itemsize", "B*H*M*dv*itemsize"
_OUT = "B*H*N*dv*itemsize"
_FUTURE = {"future": "causal*N*M"}
_MASKED = {"masked": f"min(1, mask)*{_SCORES}"}
_LOSS = {"loss": "itemsize", "loss gradient": "itemsize"}

# On the CPU a scale is a double, and float32 is multiplied by a copy of it in its own dtype.
_SCALE = {"scale": "8"}
_COPIED = {"scale": "8", "its copy": "min(itemsize, 8 - itemsize)"}
# The gradient from sum() has no strides. The product copies a head of it at a time into a proper
# matrix, unless all is too small for a library call.
_HEAD = {"gradient of one head": "N*dv*itemsize * min(1, N*M*dv//400)"}


def _scores_and_weights(
    again: str, held: dict[str, str], future: dict[str, str], scale: dict[str, str]
) -> tuple[Phase, ...]:
    """The phases of the body up to its weights, given what is alive beside it and what it keeps."""
    scores = {**held, "scores": _SCORES}
    both = {**scores, **future, "weights": _SCORES}
    blind = {"largest scores": "min(1, mask)*B*H*N*itemsize", "blind": "min(1, mask)*B*H*N"}
    cpu = {"cpu": scale}
    return (
        Phase(f"scores.mul_(scale){again}", scores, {"cpu": _COPIED}),
        Phase(f"causal{again}", {**scores, **_FUTURE}, cpu),
        Phase(
            f"mask{again}", {**scores, **future, **_MASKED, "-inf": "min(1, mask)*itemsize"}, cpu
        ),
        Phase(f"softmax{again}", both, cpu),
        Phase(f"blind queries{again}", {**both, **blind}, cpu),
    )


def _forward(scale: dict[str, str]) -> tuple[Phase, ...]:
    """The phases of the forward pass, given what is kept of the scale, unseen by checkpoint."""
    return (
        *_scores_and_weights("", {}, {}, scale),
        Phase(
            "out = weights @ v",
            {"scores": _SCORES, "weights": _SCORES, "out": _OUT},
            {"cpu": scale},
        ),
    )


_GRAD_V = {"v gradient": _V, **_LOSS}
_GRADS = {**_GRAD_V, "scores gradient": _SCORES}
_WEIGHTS = {"weights": _SCORES, "weights gradient": _SCORES, **_FUTURE}
_BACKWARD = (
    Phase("out.sum()", {"out": _OUT, **_LOSS}, {"cpu": _SCALE}),
    *_scores_and_weights(" again", _LOSS, _FUTURE, _SCALE),
    Phase("weights gradient", {**_WEIGHTS, **_GRAD_V}, {"cpu": {**_SCALE, **_HEAD}}),
    Phase(
        "softmax backward",
        {**_WEIGHTS, **_GRADS},
        # CUDA multiplies the two before it sums (aten/src/ATen/native/cuda/SoftMax.cu).
        {"cpu": _SCALE, "cuda": {"gradient times weights": _SCORES}},
    ),
    Phase(
        "mask backward",
        {**_GRADS, **_FUTURE, **_MASKED, "zero": "min(1, mask)*itemsize"},
        {"cpu": _SCALE},
    ),
    Phase("causal backward", {**_GRADS, **_FUTURE, "masked": f"causal*{_SCORES}"}, {"cpu": _SCALE}),
    Phase("scale backward", {**_GRADS, "scaled": _SCORES}, {"cpu": _COPIED}),
    Phase("scores backward", {**_GRADS, "k.mT gradient": _K, "q gradient": _Q}),
    Phase(
        "k gradient",
        {
            **_GRAD_V,
            "q gradient": _Q,
            "k.mT gradient": _K,
            # Made transposed, then copied into k's own layout if that is another.
            "k gradient": f"{_K} * min(1, (M - 1)*(d - 1))",
        },
    ),
)

_DEFAULTS = {"causal": 0, "mask": 0}
MODEL = KernelModel(
    forward=MemoryModel("checkpointed forward", _forward({}), _DEFAULTS),
    training=MemoryModel("checkpointed training", _forward(_SCALE) + _BACKWARD, _DEFAULTS),
)

KERNEL = Kernel("checkpointed", attention, MODEL, mask=True)
