"""Standard attention, checkpointed: scores and weights are freed, and computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch.utils.checkpoint import checkpoint

from ..budgets.memory_model import Phase
from . import standard
from .kernel import Kernel
from .memory_terms import LOSS, OUT, kernel_model
from .standard import DEFAULTS, FROM_WEIGHTS, FUTURE, SCALE, SCORES, scores_and_weights

if TYPE_CHECKING:
    from torch import Tensor


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
    # Without preserve_rng_state, because nothing here is random.
    out: Tensor = checkpoint(
        standard.attention,
        q,
        k,
        v,
        causal=causal,
        scale=scale,
        mask=mask,
        use_reentrant=False,
        preserve_rng_state=False,
    )
    return out


def _forward(scale: dict[str, str]) -> tuple[Phase, ...]:
    """The phases of the forward pass, given what is kept of the scale, unseen by checkpoint."""
    return (
        *scores_and_weights("", {}, {}, scale),
        Phase(
            "out = weights @ v",
            {"scores": SCORES, "weights": SCORES, "out": OUT},
            {"cpu": scale},
        ),
    )


_BACKWARD = (
    Phase("out.sum()", {"out": OUT, **LOSS}, {"cpu": SCALE}),
    *scores_and_weights(" again", LOSS, FUTURE, SCALE),
    *FROM_WEIGHTS,
)

MODEL = kernel_model("checkpointed", _forward({}), _forward(SCALE) + _BACKWARD, DEFAULTS)

KERNEL = Kernel("checkpointed", attention, MODEL, mask=True)
