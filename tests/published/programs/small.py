"""Programs of a few lines, from issues and catalogues."""

from __future__ import annotations

import gc
from contextlib import nullcontext
from functools import partial

import torch
import torch.nn.functional as F
from torch import cuda, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

Numbers = dict[str, int]


def left_by_linear() -> Numbers:
    """What a layer of one weight leaves: the workspace of cuBLAS."""
    before = cuda.memory_allocated()

    def call() -> None:
        model = nn.Linear(1, 1, device="cuda")
        model(torch.randn(1, 1, device="cuda"))

    call()
    return {"left": cuda.memory_allocated(), "before": before}


def parameters() -> Numbers:
    """What the parameters of a layer of 100 by 100 take."""
    kept = nn.Linear(100, 100).to("cuda")
    found = {"allocated": cuda.memory_allocated()}
    del kept
    return found


def workspace(kind: str, left: list[int], right: list[int], dtype: str) -> Numbers:
    """What a product or a convolution takes above its inputs and its output."""
    torch.backends.cudnn.benchmark = False
    made = {"device": "cuda", "dtype": getattr(torch, dtype)}
    x, weight = torch.randn(left, **made), torch.randn(right, **made)

    call = torch.mm if kind == "mm" else partial(F.conv2d, padding=1)
    for _ in range(3):
        output = call(x, weight)
        del output
    gc.collect()
    cuda.empty_cache()
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    output = call(x, weight)
    levels = before, cuda.memory_allocated()
    found = {"above": max(0, cuda.max_memory_allocated() - max(levels))}
    del output, x, weight
    gc.collect()
    cuda.empty_cache()
    return found


def torch_attention(n: int, backend: str) -> dict[str, int]:
    """Peak of one of PyTorch's attentions; that of products ran before it and left a workspace."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q, k, v = (torch.randn(1, 8, n, 64, device="cuda", dtype=torch.half) for _ in range(3))
    for name in ("MATH", backend):
        cuda.empty_cache()
        cuda.reset_peak_memory_stats()
        with sdpa_kernel(getattr(SDPBackend, name)):
            for _ in range(2):
                F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return {"peak": cuda.max_memory_allocated()}


def attention_backends(n: int) -> Numbers:
    """Peaks of a training step of SDPA over 32 heads, by mask and backend, in the order measured.

    The first product of the math backend leaves cuBLAS's workspaces to those that follow.
    """
    mask = torch.ones(n, n, dtype=torch.bool, device="cuda").tril()[None, None]
    backends = {"math": SDPBackend.MATH, "efficient": SDPBackend.EFFICIENT_ATTENTION}
    found = {}
    for pattern in ("mask", "causal"):
        how = {"attn_mask": mask} if pattern == "mask" else {"is_causal": True}
        more = {} if pattern == "mask" else {"flash": SDPBackend.FLASH_ATTENTION}
        for name, backend in {"auto": None, **backends, **more}.items():
            q, k, v = (
                torch.randn(1, 32, n, 128, dtype=torch.bfloat16, device="cuda", requires_grad=True)
                for _ in "qkv"
            )
            cuda.empty_cache()
            cuda.reset_peak_memory_stats()
            with sdpa_kernel(backend) if backend else nullcontext():
                output = F.scaled_dot_product_attention(q, k, v, **how)
            output.float().pow(2).mean().backward()
            found[f"{pattern}, {name}"] = cuda.max_memory_allocated()
            del q, k, v, output
    return found
