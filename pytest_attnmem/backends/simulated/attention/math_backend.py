"""Attention by plain operators, as ``_scaled_dot_product_attention_math`` runs it on CUDA.

PyTorch's own function differs on fake tensors: it adds out of place on a subclass of Tensor, where
it adds in place on a device, and dropout is not fused. Here the operators and the lifetimes of
their results are those of a device. Source:
``aten/src/ATen/native/transformers/attention.cpp`` of PyTorch 2.13.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)


def math_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Tensor:
    """Runs attention: […, H, N, d] x […, Hkv, M, d] x […, Hkv, M, dv] -> […, H, N, dv].

    Half precision is widened to float unless ``allow_fp16_bf16_reduction_math_sdp`` is on. The
    weights are cast back too, although the result is not used.

    Raises:
        RuntimeError: both a mask and ``is_causal`` are given, or heads do not divide.
    """
    if is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: "
            "Explicit attn_mask should not be set when is_causal=True"
        )
    dtype = query.dtype
    wide_query, wide_key, wide_value = (_widened(one) for one in (query, key, value))
    factor = math.sqrt(abs(scale) if scale is not None else 1 / math.sqrt(query.shape[-1]))
    scaled = wide_query * (-factor if scale is not None and scale < 0 else factor)
    if is_causal:
        attn_mask = additive(_lower_triangle(scaled, wide_key), scaled.dtype)
    heads = query.shape[-3] if enable_gqa else None
    keys, values = (_repeated(one, heads) for one in (wide_key, wide_value))
    weights = scaled @ (keys.transpose(-2, -1) * factor)
    if attn_mask is not None:
        weights.add_(attn_mask)
    weights = _aten._safe_softmax(weights, -1)
    if dropout_p > 0:
        weights = _dropped(weights, dropout_p)
    cast_weights = weights.to(dtype)
    out = (weights @ values).to(dtype)
    del cast_weights
    return out


def additive(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns a mask to add to the scores, from a bool one (``convert_boolean_attn_mask``)."""
    if mask.dtype is not torch.bool:
        return mask
    hidden = _aten.scalar_tensor(-math.inf, dtype=dtype, device=mask.device)
    return torch.where(mask, 0.0, hidden)


def _widened(tensor: Tensor) -> Tensor:
    if tensor.dtype in _HALVES and not torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed():
        return tensor.to(torch.float32)
    return tensor


def _lower_triangle(query: Tensor, key: Tensor) -> Tensor:
    shape = (query.shape[-2], key.shape[-2])
    return torch.ones(shape, dtype=torch.bool, device=query.device).tril()


def _repeated(tensor: Tensor, heads: int | None) -> Tensor:
    """Repeats grouped heads (``pre_process_group_query_attention_input``)."""
    if heads is None:
        return tensor
    groups, beyond = divmod(heads, tensor.shape[-3])
    if beyond:
        raise RuntimeError("Number of heads in key and value must divide the number of heads in ")
    return tensor if groups == 1 else tensor.repeat_interleave(groups, -3)


def _dropped(weights: Tensor, p: float) -> Tensor:
    if p < 1:
        dropped: Tensor = _aten.native_dropout(weights, p, True)[0]
        return dropped
    return weights * torch.zeros((), dtype=weights.dtype, device=weights.device)
