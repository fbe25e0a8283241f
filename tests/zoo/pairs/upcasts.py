"""Copies in a wider type. Here it is float64: half types bring scratch of their own on CPUs."""

import torch
from zoo.pair import pair


@pair(
    9,
    "",
    "the scores are widened for the softmax",
    operator="to_copy",
    limit="2*N*N*itemsize + N*d*itemsize",
    N=256,
)
def scores_widened(qkv, N, *, bad):
    q, k, v = qkv(1, 1, N, 16)
    scores = q @ k.mT
    if bad:
        wide = scores.double()  # guilty
        weights = wide.softmax(-1).to(q.dtype)  # guilty
    else:
        weights = scores.softmax(-1)
    return weights @ v


@pair(
    9,
    "transformers#33902",
    "all logits are widened, though only the last position is read",
    operator="to_copy",
    limit="N*M*itemsize + 2*M*8",
    N=64,
)
def logits_widened(qkv, N, *, bad):
    hidden, head, _ = qkv(1, 1, N, 32, M=512)
    logits = (hidden @ head.mT)[0, 0]
    if bad:
        return logits.double()[-1]  # guilty
    return logits[-1].double()


@pair(
    11,
    "pytorch#175058",
    "a norm saves its results in a wider type for backward",
    operator="to_copy",
    limit="2*N*d*itemsize + 8*N + 64",
    N=256,
)
def norm_saves_wide(qkv, N, *, bad):
    x, gain, _ = qkv(1, 1, N, 64, requires_grad=True)
    gain = gain[..., :1, :]
    if bad:
        wide = x.double()  # guilty
        normed = (wide * wide.pow(2).mean(-1, keepdim=True).rsqrt()).to(x.dtype)  # guilty
    else:
        normed = x * x.pow(2).mean(-1, keepdim=True).rsqrt()
    return normed * gain


@pair(
    2,
    "",
    "tables of positions are copied for every head",
    operator="clone",
    limit="4*H*N*d*itemsize + 4*N*d*itemsize",
    N=128,
)
def rotary_tables_per_head(qkv, N, *, bad):
    q, _, _ = qkv(1, 8, N, 16)
    at = torch.arange(N, device=q.device, dtype=q.dtype)
    turns = at[:, None] * torch.full((16,), 0.01, device=q.device)
    cos, sin = turns.cos(), turns.sin()
    if bad:
        cos = cos.expand(1, 8, N, 16).contiguous()  # guilty
        sin = sin.expand(1, 8, N, 16).contiguous()  # guilty
    first, second = q.chunk(2, dim=-1)
    return q * cos + torch.cat((-second, first), dim=-1) * sin
