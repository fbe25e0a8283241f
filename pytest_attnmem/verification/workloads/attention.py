"""Attention: every backend of ``scaled_dot_product_attention`` in its dtypes, and by hand."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from ..workload import Workload
from .inputs import bf16, fp16, fp32, fp64, made, train

_FLASH, _EFFICIENT = SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION
_MATH, _CUDNN = SDPBackend.MATH, SDPBackend.CUDNN_ATTENTION


def _sdpa(
    backend: SDPBackend,
    dtype: torch.dtype,
    *,
    B: int = 2,
    H: int = 8,
    Hkv: int = 8,
    N: int = 1024,
    M: int = 1024,
    d: int = 64,
    causal: bool = False,
    dropout: float = 0.0,
    grad: bool = True,
) -> None:
    """Runs one attention ``[B, H, N, d]`` over M keys, and backward if ``grad``."""
    q = made(B, H, N, d, dtype=dtype, grad=grad)
    k, v = (made(B, Hkv, M, d, dtype=dtype, grad=grad) for _ in range(2))
    with sdpa_kernel(backend):
        out = F.scaled_dot_product_attention(
            q, k, v, dropout_p=dropout, is_causal=causal, enable_gqa=Hkv != H
        )
    if grad:
        train(out)


def _length_first() -> None:
    """Runs flash attention on inputs ``[B, N, H, d]``, whose kernel needs no copies."""
    q, k, v = (made(2, 1024, 8, 64, dtype=fp16).transpose(1, 2) for _ in range(3))
    with sdpa_kernel(_FLASH):
        train(F.scaled_dot_product_attention(q, k, v))


def _masked() -> None:
    """Runs attention with a mask of truth values, on the backend that PyTorch chooses."""
    q, k, v = (made(2, 8, 512, 64, dtype=fp16) for _ in range(3))
    mask = torch.ones(512, 512, dtype=torch.bool, device="cuda").tril()
    train(F.scaled_dot_product_attention(q, k, v, mask))


def _biased() -> None:
    """Runs efficient attention with a learned bias."""
    q, k, v = (made(2, 4, 520, 72, dtype=fp16) for _ in range(3))
    bias = made(1, 4, 520, 520, dtype=fp16)
    with sdpa_kernel(_EFFICIENT):
        train(F.scaled_dot_product_attention(q, k, v, bias.expand(2, -1, -1, -1)))


def _by_hand(dtype: torch.dtype) -> None:
    """Runs softmax attention with its scores written out."""
    q, k, v = (made(2, 4, 700, 64, dtype=dtype) for _ in range(3))
    train((q @ k.mT * 0.125).softmax(-1) @ v)


def _multihead(need_weights: bool) -> None:
    """Runs ``nn.MultiheadAttention`` and backward."""
    module = nn.MultiheadAttention(256, 8, batch_first=True, device="cuda", dtype=fp16)
    x = made(4, 384, 256, dtype=fp16)
    train(module(x, x, x, need_weights=need_weights)[0])


ATTENTION = tuple(
    Workload(f"attention/{name}", run)
    for name, run in (
        ("flash-fp16", partial(_sdpa, _FLASH, fp16)),
        ("flash-bf16", partial(_sdpa, _FLASH, bf16)),
        ("flash-causal-d96", partial(_sdpa, _FLASH, fp16, d=96, causal=True)),
        ("flash-grouped", partial(_sdpa, _FLASH, bf16, H=16, Hkv=4, d=128)),
        ("flash-dropout", partial(_sdpa, _FLASH, fp16, dropout=0.1)),
        ("flash-split-keys", partial(_sdpa, _FLASH, fp16, B=1, N=1, M=8192, grad=False)),
        ("flash-length-first", _length_first),
        ("efficient-fp32", partial(_sdpa, _EFFICIENT, fp32)),
        ("efficient-fp16", partial(_sdpa, _EFFICIENT, fp16)),
        ("efficient-bf16-causal", partial(_sdpa, _EFFICIENT, bf16, causal=True)),
        ("efficient-odd", partial(_sdpa, _EFFICIENT, fp32, N=1001, M=777)),
        ("efficient-bias", _biased),
        ("math-fp64", partial(_sdpa, _MATH, fp64, N=512, M=512)),
        ("math-fp32", partial(_sdpa, _MATH, fp32, N=512, M=512)),
        ("math-fp16", partial(_sdpa, _MATH, fp16, N=512, M=512, causal=True)),
        ("math-bf16", partial(_sdpa, _MATH, bf16, N=512, M=512)),
        ("cudnn-fp16", partial(_sdpa, _CUDNN, fp16)),
        ("cudnn-bf16-causal", partial(_sdpa, _CUDNN, bf16, causal=True, d=128)),
        ("masked-fp16", _masked),
        ("by-hand-fp64", partial(_by_hand, fp64)),
        ("by-hand-fp32", partial(_by_hand, fp32)),
        ("by-hand-fp16", partial(_by_hand, fp16)),
        ("by-hand-bf16", partial(_by_hand, bf16)),
        ("multihead-fp16", partial(_multihead, False)),
        ("multihead-weights-fp16", partial(_multihead, True)),
    )
)
