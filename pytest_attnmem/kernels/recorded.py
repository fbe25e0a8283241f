"""Records the backward pass that a kernel brings along, and cuts rows into blocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def recorded(
    name: str,
    forward: Callable[..., tuple[Tensor, tuple[Tensor, ...]]],
    backward: Callable[..., tuple[Tensor, ...]],
    how: Any,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *mask: Tensor | None,
) -> Tensor:
    """Returns the output of ``forward``, whose gradients ``backward`` gives.

    ``forward`` takes the tensors and ``how``; it returns the output, and what is kept beside the
    tensors. ``backward`` takes the tensors, what was kept, the output's gradient and ``how``.

    Raises:
        ValueError: the mask requires a gradient.
    """
    if torch.is_grad_enabled():
        if any(x is not None and x.requires_grad for x in mask):
            raise ValueError(f"mask must not require a gradient in {name}, got one that does")
        if q.requires_grad or k.requires_grad or v.requires_grad:
            out: Tensor = _Recorded.apply(forward, backward, how, q, k, v, *mask)  # type: ignore[no-untyped-call]
            return out
    return forward(q, k, v, *mask, how)[0]


class _Recorded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, forward: Any, backward: Any, how: Any, *inputs: Tensor | None) -> Any:
        out, kept = forward(*inputs, how)
        ctx.save_for_backward(*inputs, *kept)
        ctx.gradients, ctx.how, ctx.masks = backward, how, len(inputs) - 3
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.gradients(*ctx.saved_tensors, grad, ctx.how)
        return None, None, None, *gradients, *[None] * ctx.masks


def blocks(total: int, size: int) -> list[slice]:
    """Returns ``total`` rows cut into blocks of ``size``, the last one shorter."""
    return [slice(i, min(i + size, total)) for i in range(0, total, size)]


def load(x: Tensor, rows: slice, dtype: torch.dtype, copy: bool = False) -> Tensor:
    """Some of the rows, [B·H, n, …]: a view, or a copy if asked for or of another dtype."""
    block = x[:, :, rows].flatten(0, 1)
    # A gradient may be one number, expanded, and no GEMM accepts it.
    layout = torch.contiguous_format if copy else torch.preserve_format
    return block.to(dtype, copy=copy, memory_format=layout)
