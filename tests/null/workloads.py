"""The workloads of ``record.py``: attention in the usual ways of writing it.

Each runs once in a fresh process from ``torch.cuda.init()`` on: inputs, parameters and workspaces
of cuBLAS are inside the window. Inputs are uninitialised, because only memory matters.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

empty = partial(torch.empty, device="cuda")


def inputs(B, H, N, d, dtype, requires_grad=True):
    return [empty(B, H, N, d, dtype=dtype, requires_grad=requires_grad) for _ in range(3)]


def train(out):
    out.backward(torch.empty_like(out))


def standard(dtype, backward):
    q, k, v = inputs(2, 4, 1024, 64, dtype, backward)
    scores = q @ k.transpose(-1, -2) * (64**-0.5)
    weights = scores.softmax(-1)
    out = weights @ v
    if backward:
        del scores
        train(out)


def standard_masked_with_dropout():
    q, k, v = inputs(2, 4, 1024, 64, torch.float32)
    scores = q @ k.transpose(-1, -2) * (64**-0.5)
    future = torch.ones(1024, 1024, dtype=torch.bool, device="cuda").triu(1)
    scores = scores.masked_fill(future, -1e9)
    weights = F.dropout(scores.softmax(-1), 0.1)
    out = weights @ v
    train(out)


def chunked(N=8192, d=64, chunk=512):
    q, k, v = inputs(1, 4, N, d, torch.float16, requires_grad=False)
    out = torch.empty_like(q)
    for i in range(0, N, chunk):
        rows = q[:, :, i : i + chunk]
        top = torch.full((1, 4, chunk, 1), -1e4, device="cuda", dtype=torch.float32)
        total = torch.zeros_like(top)
        sums = torch.zeros(1, 4, chunk, d, device="cuda")
        for j in range(0, N, chunk):
            scores = (rows @ k[:, :, j : j + chunk].transpose(-1, -2)).float() * (d**-0.5)
            highest = torch.maximum(top, scores.amax(-1, keepdim=True))
            weights = torch.exp(scores - highest)
            shrink = torch.exp(top - highest)
            total = total * shrink + weights.sum(-1, keepdim=True)
            sums = sums * shrink + (weights.half() @ v[:, :, j : j + chunk]).float()
            top = highest
        out[:, :, i : i + chunk] = (sums / total).half()


def linear():
    q, k, v = inputs(2, 8, 4096, 64, torch.float32)
    keys = F.elu(k) + 1
    queries = F.elu(q) + 1
    norm = 1 / (torch.einsum("bhnd,bhd->bhn", queries, keys.sum(2)) + 1e-6)
    # The states have no name here, so that only the tensors saved for backward stay allocated.
    mixed = "bhnd,bhde,bhn->bhne"
    out = torch.einsum(mixed, queries, torch.einsum("bhnd,bhne->bhde", keys, v), norm)
    train(out)


def multihead(need_weights):
    module = nn.MultiheadAttention(256, 8, batch_first=True, device="cuda", dtype=torch.float16)
    x = empty(4, 512, 256, dtype=torch.float16, requires_grad=True)
    out, _ = module(x, x, x, need_weights=need_weights)
    train(out)


def checkpointed():
    def block(x, w1, w2):
        return x + F.gelu(x @ w1) @ w2

    w1, w2 = empty(256, 1024, requires_grad=True), empty(1024, 256, requires_grad=True)
    x = empty(8192, 256, requires_grad=True)
    y = x
    for _ in range(3):
        y = checkpoint(block, y, w1, w2, use_reentrant=False, preserve_rng_state=False)
    train(y)


def flash(B=2, H=16, Hkv=16, N=2048, d=128, heads_first=True):
    def made(heads):
        shape = (B, heads, N, d) if heads_first else (B, N, heads, d)
        x = empty(shape, dtype=torch.float16, requires_grad=True)
        return x if heads_first else x.transpose(1, 2)

    q, k, v = made(H), made(Hkv), made(Hkv)
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        train(F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=Hkv != H))


def efficient(B=2, H=16, N=2048, d=64):
    q, k, v = inputs(B, H, N, d, torch.float32)
    train(F.scaled_dot_product_attention(q, k, v))


def flash_paper(N, B=16, H=8, d=64):
    """The baseline of arXiv 2205.14135v2, Table 21: inputs packed as [B, N, 3, H, d]."""
    q, k, v = empty(B, N, 3, H, d, dtype=torch.float16, requires_grad=True).unbind(2)
    weights = torch.einsum("bnhd,bmhd->bhnm", q * d**-0.5, k).softmax(-1)
    train(torch.einsum("bhnm,bmhd->bnhd", weights, v))


WORKLOADS = {
    "naive_fp32": partial(standard, torch.float32, backward=True),
    "naive_fp16_fwd": partial(standard, torch.float16, backward=False),
    "naive_mask_dropout": standard_masked_with_dropout,
    "chunked_lazy_softmax_fp16": chunked,
    "linear_attn_fp32": linear,
    "mha_fp16": partial(multihead, need_weights=False),
    "mha_fp16_weights": partial(multihead, need_weights=True),
    "mlp_ckpt": checkpointed,
    "sdpa_flash_fp16": flash,
    "sdpa_flash_gqa": partial(flash, Hkv=4),
    "sdpa_flash_bshd": partial(flash, heads_first=False),
    "sdpa_flash_small_splitkv": partial(flash, 1, 8, 8, 1000, 64),
    "sdpa_eff_fp32": efficient,
    "sdpa_eff_fp32_odd": partial(efficient, 1, 4, 1000, 64),
    **{f"flash_paper_{N}": partial(flash_paper, N) for N in (512, 1024, 2048, 4096)},
}


def peaks(name):
    """Returns the peaks of requested, allocated and reserved bytes."""
    torch.cuda.init()
    torch.cuda.reset_peak_memory_stats()
    WORKLOADS[name]()
    statistics = torch.cuda.memory_stats()
    kinds = ("requested", "allocated", "reserved")
    return [statistics[f"{kind}_bytes.all.peak"] for kind in kinds]
