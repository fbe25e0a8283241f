"""Masks that become tensors of their own."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from zoo.pair import pair

FUSED = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]


@pair(
    1,
    "transformers#30010",
    "a causal mask is built although the kernel needs none",
    operator="ones",
    limit="4*B*H*N*d*itemsize + 2 MiB",
    contract="O(N)",
    N=1024,
)
def mask_never_none(qkv, N, *, bad):
    q, k, v = qkv(1, 2, N, 16)
    mask = None
    if bad:
        mask = torch.ones(N, N, dtype=torch.bool, device=q.device).tril_()  # guilty
    with sdpa_kernel(FUSED):
        return scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=not bad)  # guilty


@pair(
    2,
    "transformers#29484",
    "a mask is copied for every batch, though a view is enough",
    operator="repeat",
    limit="2*N^2",
    contract="O(N^2)",
    B=16,
    N=128,
)
def mask_repeated(qkv, B, N, *, bad):
    q, _, _ = qkv(B, 1, N, 16)
    mask = torch.ones(N, N, dtype=torch.bool, device=q.device).tril()
    if bad:
        return mask.repeat(B, 1, 1, 1)  # guilty
    return mask.expand(B, 1, N, N)


@pair(
    20,
    "x-transformers#325, vllm-omni#1349",
    "a padding mask of a row per key is copied for every query",
    operator="clone",
    limit="2*B*N",
    contract="O(N)",
    N=64,
)
def padding_mask_copied(qkv, N, *, bad):
    q, _, _ = qkv(4, 1, N, 16)
    real = torch.ones(4, N, dtype=torch.bool, device=q.device)
    mask = real[:, None, None, :].expand(4, 1, N, N)
    if bad:
        mask = mask.contiguous()  # guilty
    return mask


@pair(
    19,
    "pytorch#134756",
    "a mask of blocks is reduced from the mask of all positions",
    operator="ones",
    limit="N*8 + 1 KiB",
    contract="O(N)",
    N=512,
)
def block_mask_from_dense(qkv, N, *, bad):
    q, _, _ = qkv(1, 1, N, 16)
    blocks = N // 16
    if bad:
        dense = torch.ones(N, N, dtype=torch.bool, device=q.device).tril_()  # guilty
        columns = dense.view(blocks, 16, N).any(1)  # guilty
        return columns.sum(-1).add_(15).div_(16, rounding_mode="floor")  # guilty
    return torch.arange(1, blocks + 1, device=q.device)


@pair(
    20,
    "",
    "a bias holds the distances of all positions, though the distances of keys are enough",
    operator="sub",
    limit="3*N*N*itemsize + 16*N",
    N=256,
)
def bias_of_distances(qkv, N, *, bad):
    q, k, v = qkv(1, 1, N, 16)
    at = torch.linspace(0, 1, N, device=q.device)
    bias = at
    if bad:
        bias = at - at[:, None]  # guilty
    scores = q @ k.mT
    return (scores + bias).softmax(-1) @ v
