"""Kernels that were there, and are not taken."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention
from zoo.pair import pair


@pair(
    18,
    "unsloth#8819",
    "the environment has no fused kernel, and the dense kernel runs instead",
    operator="bmm",
    limit="6*H*N*d*itemsize + 2 MiB",
    contract="O(N)",
    N=1024,
)
def dense_kernel(qkv, N, *, bad):
    q, k, v = qkv(1, 2, N, 16)
    fused = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION]
    with sdpa_kernel(SDPBackend.MATH if bad else fused):
        return scaled_dot_product_attention(q, k, v)  # guilty


@pair(
    19,
    "pytorch#182611",
    "attention in tiles runs dense where it is not compiled",
    operator="bmm",
    limit="2*64*N*itemsize + 2*N*d*itemsize",
    contract="O(N)",
    N=256,
)
def tiles_run_dense(qkv, N, *, bad):
    q, k, v = qkv(1, 1, N, 16)
    rows = N if bad else 64
    out = torch.empty_like(q)
    for start in range(0, N, rows):
        tile = q[:, :, start : start + rows] @ k.mT  # guilty
        tile = tile.softmax(-1)  # guilty
        out[:, :, start : start + rows] = tile @ v
        del tile
    return out


@pair(
    4,
    "pytorch#139612",
    "a softmax looks for rows without a key, in tensors as large as the scores",
    operator="where",
    limit="2*N*N*itemsize + N*d*itemsize",
    N=256,
)
def safe_softmax(qkv, N, *, bad):
    q, k, v = qkv(1, 1, N, 16)
    scores = q @ k.mT
    weights = scores.softmax(-1)
    if bad:
        empty = (scores == float("-inf")).all(-1, keepdim=True)  # guilty
        weights = torch.where(empty, 0.0, weights)  # guilty
    del scores
    return weights @ v


@pair(
    23,
    "pytorch#92659",
    "a fused update becomes three operators, each with a result of its own",
    operator="mul",
    limit="N*d*itemsize",
    N=256,
)
def fusion_lost(qkv, N, *, bad):
    x, y, z = qkv(1, 1, N, 32)
    if bad:
        product = y * z  # guilty
        return x + product
    return torch.addcmul(x, y, z)
