"""Tensors that are saved for a backward pass that needs less, or never comes."""

from functools import partial

import torch
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)
from zoo.pair import pair


@pair(
    5,
    "flash-attention#1383",
    "each call saves its output for backward although gradients are off",
    operator="mul",
    limit="2*N*d*itemsize + 64",
    contract="O(1)",
    B=8,
)
def saved_without_gradients(qkv, B, *, bad):
    x, _, _ = qkv(B, 1, 64, 32)
    saved = []
    with torch.no_grad():
        for one in x:
            out = one * 0.5  # guilty
            if bad or torch.is_grad_enabled():
                saved.append(out)
    return out


class Gate(torch.autograd.Function):
    """``x * sigmoid(y)``, which computes the sigmoid again where it may."""

    @staticmethod
    def forward(ctx, x, y, keep):
        gate = y.sigmoid()  # guilty: gates_saved
        ctx.keep = keep
        ctx.save_for_backward(x, y, *([gate] if keep else []))
        return x * gate

    @staticmethod
    def backward(ctx, grad):
        x, y, *kept = ctx.saved_tensors
        gate = kept[0] if kept else y.sigmoid()
        return grad * gate, grad * x * gate * (1 - gate), None


def policy(also, ctx, op, *args, **kwargs):
    """Matrix products are saved; an absolute value only where the list says so."""
    saved = op in (torch.ops.aten.mm.default, *also)
    return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE


@pair(
    13,
    "torchtitan#820",
    "the list of a selective checkpoint saves an absolute value",
    operator="abs",
    limit="13*N*d*itemsize + 64",
    N=128,
)
def absolute_values_saved(qkv, N, *, bad):
    x, _, _ = qkv(1, 1, N, 64, requires_grad=True)
    also = (torch.ops.aten.abs.default,) if bad else ()
    contexts = partial(create_selective_checkpoint_contexts, partial(policy, also))

    def block(x):
        return x + x.abs().square().sin().cos()  # guilty

    for _ in range(6):
        x = checkpoint(block, x, use_reentrant=False, context_fn=contexts)
    x.sum().backward()
    return x.detach()


@pair(
    12,
    "lightning-thunder#1615",
    "gates are saved for backward, though they can be computed again",
    operator="sigmoid",
    limit="14*N*d*itemsize + 64",
    N=128,
)
def gates_saved(qkv, N, *, bad):
    x, y, _ = qkv(1, 1, N, 64, requires_grad=True)
    for _ in range(6):
        x = Gate.apply(x, y, bad)
    x.sum().backward()
    return x.detach()


@pair(
    12,
    "",
    "the mask of a dropout is saved as floats, though booleans are enough",
    operator="to_copy",
    limit="3*N*N*itemsize + 2*N*N + 8*N",
    N=256,
)
def dropout_mask_of_numbers(qkv, N, *, bad):
    scores, _, _ = qkv(1, 1, N, N, requires_grad=True)
    kept = torch.arange(N, device=scores.device) % 4 > 0
    kept = kept.expand(N, N).clone()
    if bad:
        mask = kept.to(scores.dtype)  # guilty
        return (scores.softmax(-1) * mask).square()
    return scores.softmax(-1).masked_fill(~kept, 0).square()
