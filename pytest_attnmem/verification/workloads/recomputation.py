"""Activations that are not kept: checkpointed, recomputed by hand, or moved to the host."""

from __future__ import annotations

from functools import partial

import torch
from torch.autograd.graph import save_on_cpu
from torch.utils.checkpoint import checkpoint

from ..workload import Workload
from .blocks import Block
from .inputs import fp16, made, train


def _checkpointed(use_reentrant: bool) -> None:
    """Runs three blocks, each run again in backward."""
    blocks = [Block(192, 4) for _ in range(3)]
    x = made(3, 300, 192)
    for block in blocks:
        x = checkpoint(block, x, use_reentrant=use_reentrant)
    train(x)


def _on_the_host() -> None:
    """Runs a block whose saved tensors are copied to the host until backward."""
    block, x = Block(192, 4), made(3, 300, 192)
    with save_on_cpu():
        out = block(x)
    train(out)


class _Recomputed(torch.autograd.Function):
    """Attention that keeps its inputs alone, and makes its weights again in backward."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        q: torch.Tensor,
        k: torch.Tensor,
        v: torch.Tensor,
    ) -> torch.Tensor:
        """Returns ``[B, H, N, d]``."""
        ctx.save_for_backward(q, k, v)
        return (q @ k.mT).softmax(-1) @ v

    @staticmethod
    def backward(
        ctx: torch.autograd.function.FunctionCtx, *grads: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        """Returns the gradients of q, k and v."""
        q, k, v = ctx.saved_tensors  # type: ignore[attr-defined]
        weights = (q @ k.mT).softmax(-1)
        slope = grads[0] @ v.mT
        slope = weights * (slope - (slope * weights).sum(-1, keepdim=True))
        return slope @ k, slope.mT @ q, weights.mT @ grads[0]


def _recomputed() -> None:
    """Runs attention with its own backward."""
    q, k, v = (made(3, 5, 410, 40, dtype=fp16) for _ in range(3))
    train(_Recomputed.apply(q, k, v))  # type: ignore[no-untyped-call]


RECOMPUTATION = (
    Workload("recomputation/checkpoint", partial(_checkpointed, False)),
    Workload("recomputation/checkpoint-reentrant", partial(_checkpointed, True)),
    Workload("recomputation/saved-on-the-host", _on_the_host),
    Workload("recomputation/own-backward-fp16", _recomputed),
)
