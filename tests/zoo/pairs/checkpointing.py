"""Checkpoints that save nothing."""

from torch.nn.functional import gelu
from torch.utils.checkpoint import checkpoint
from zoo.pair import pair


@pair(
    24,
    "diffusers#4474",
    "a model has checkpointing switched on, and does not pass the switch on to its blocks",
    operator="mul",
    limit="14*N*d*itemsize + 1 KiB",
    saving="3*N*d*itemsize",
    N=128,
)
def checkpointing_not_passed_on(qkv, N, *, bad):
    x, _, _ = qkv(1, 1, N, 64, requires_grad=True)

    def block(x):
        return x + gelu(gelu(x * 2) * 2)  # guilty

    for _ in range(6):
        x = block(x) if bad else checkpoint(block, x, use_reentrant=False)
    x.sum().backward()
    return x.detach()


@pair(
    10,
    "transformers#24247",
    "a checkpointed block hands its activation to a list that keeps it",
    operator="mul",
    limit="16*N*d*itemsize + 64",
    saving="3*N*d*itemsize",
    N=128,
)
def checkpoint_keeps(qkv, N, *, bad):
    x, _, _ = qkv(1, 1, N, 64, requires_grad=True)
    kept = []

    def block(x):
        inner = x * 2  # guilty
        if bad:
            kept.append(inner)
        return x + gelu(inner).sin()

    for _ in range(6):
        x = checkpoint(block, x, use_reentrant=False)
    x.sum().backward()
    return x.detach()


@pair(
    14,
    "TransformerEngine#2125",
    "a name is cleared before its tensor is freed, so that every call keeps a tensor",
    operator="repeat",
    limit="5*N*d*itemsize + 64",
    contract="O(1)",
    B=8,
)
def freed_by_a_cleared_name(qkv, B, *, bad):
    x, _, _ = qkv(B, 1, 64, 32)
    saved = []
    for one in x:
        gathered = one.repeat(1, 2, 1)  # guilty
        out = gathered[:, :64] * 0.5
        saved.append([gathered])
        if bad:
            gathered = None
        if gathered is not None:
            saved[-1].clear()
        del gathered
    return out
