"""The fast path of transformer encoders, as Python code with the same calls.

Sources: transformer.cpp, cuda/attention.cu and attention.cpp in aten/src/ATen/native/transformers,
and aten/src/ATen/native/cuda/SoftMax.cu. Calls on nested tensors have no model.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import linear

from ..attention.sdp_params import CUDNN, EFFICIENT, FLASH
from ..attention.sdpa import Attention, scaled_dot_product_attention, sdp_params
from ..attention.select_backend import select_backend

if TYPE_CHECKING:
    from ....profiles import DeviceProfile

_aten = torch.ops.aten

#: The longest row, in elements and in bytes, of which one kernel takes the masked softmax.
_ROW_ELEMENTS, _ROW_BYTES = 1024, 4096
#: How ``mask_type`` calls a mask [N, N], and a mask [B, N]; other masks are [B, H, N, N].
_OF_SOURCE, _OF_PADDING = 0, 1


def encoder_layer(
    src: Any,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    ffn_weight_1: Any,
    ffn_bias_1: Any,
    ffn_weight_2: Any,
    ffn_bias_2: Any,
    mask: Any = None,
    mask_type: int | None = None,
    *,
    profile: DeviceProfile,
) -> Any:
    """Runs a layer; ``src`` is [B, N, d], and so is the result."""

    def first_norm(x: Any) -> Any:
        return torch.layer_norm(x, [embed_dim], norm_weight_1, norm_bias_1, eps)

    def second_norm(x: Any) -> Any:
        return torch.layer_norm(x, [embed_dim], norm_weight_2, norm_bias_2, eps)

    x = first_norm(src) if norm_first else src
    x = multi_head_attention(
        *(x, x, x, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, mask),
        need_weights=False,
        mask_type=mask_type,
        profile=profile,
    )[0]
    x.add_(src)
    if not norm_first:
        x = first_norm(x)
    before = x
    if norm_first:
        x = second_norm(x)
    inner = _aten._addmm_activation.default(
        ffn_bias_1, x.view(-1, x.shape[-1]), ffn_weight_1.t(), use_gelu=use_gelu
    )
    x = linear(inner.view(*src.shape[:-1], -1), ffn_weight_2, ffn_bias_2)
    del inner
    x.add_(before)
    return x if norm_first else second_norm(x)


def multi_head_attention(
    query: Any,
    key: Any,
    value: Any,
    embed_dim: int,
    num_head: int,
    qkv_weight: Any,
    qkv_bias: Any,
    proj_weight: Any,
    proj_bias: Any,
    mask: Any = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
    *,
    profile: DeviceProfile,
) -> Any:
    """Runs self-attention of [B, N, d]; the weights are [B, N, N], [B, H, N, N] or None."""
    if not query is key is value:
        return NotImplemented
    batch, rows = query.shape[:2]
    heads = (batch, rows, num_head, embed_dim // num_head)
    fused = mask is None and not need_weights
    if fused and _takes_fused_kernel(query.view(heads).transpose(1, 2), profile):
        packed = linear(query, qkv_weight, qkv_bias)
        q, k, v = (part.view(heads).transpose(1, 2) for part in packed.chunk(3, -1))
        attended = scaled_dot_product_attention(Attention(q, k, v), profile)
        joined = attended.transpose(1, 2).reshape(batch, -1, embed_dim)
        return linear(joined, proj_weight, proj_bias), None
    product = torch.matmul(query, qkv_weight.t())
    packed = _with_bias(product, qkv_bias, heads)
    del product
    q, k, v = packed.view(3, batch * num_head, rows, -1)
    scores = torch.bmm(q, k.transpose(1, 2))
    if mask is None:
        _aten._softmax.out(scores, -1, False, out=scores)
    else:
        by_head = scores.view(batch, num_head, rows, rows)
        scores = _masked_softmax(by_head, mask, mask_type).view(scores.shape)
        del by_head
    torch.bmm(scores, v, out=q)  # the queries are needed no more
    weights = scores.view(batch, num_head, rows, rows) if need_weights else None
    del scores
    joined = packed[0].permute(0, 2, 1, 3).contiguous().view(batch, -1, embed_dim)
    projected = linear(joined, proj_weight, proj_bias)
    del joined
    if weights is not None and average_attn_weights:
        weights = weights.sum(1)
        weights.div_(num_head)
    return projected, weights


def _takes_fused_kernel(heads: Any, profile: DeviceProfile) -> bool:
    given = sdp_params(Attention(heads, heads, heads), profile)
    return select_backend(given).backend in (CUDNN, FLASH, EFFICIENT)


def _with_bias(product: Any, bias: Any, heads: tuple[int, ...]) -> Any:
    """Returns q, k and v as [3, B, H, N, d], with their bias, the queries scaled."""
    batch, rows, num_head, head_dim = heads
    packed = product.new_empty(3, batch, num_head, rows, head_dim)
    torch.add(
        product.view(batch, rows, 3, num_head, head_dim).permute(2, 0, 3, 1, 4),
        bias.view(3, 1, num_head, 1, head_dim),
        out=packed,
    )
    packed[0].mul_(head_dim**-0.5)
    return packed


def _masked_softmax(scores: Any, mask: Any, mask_type: int | None) -> Any:
    """Returns the weights [B, H, N, N] of scores of that shape (``masked_softmax_cuda``)."""
    mask = mask.to(torch.bool)
    if mask_type == _OF_SOURCE and mask.dim() == 2:
        mask = mask.expand(scores.shape)
    columns = scores.shape[-1]
    short = columns <= _ROW_ELEMENTS and columns * scores.element_size() <= _ROW_BYTES
    in_one_kernel = short and mask.is_contiguous()
    unused = None if in_one_kernel else torch.empty_like(scores)  # noqa: F841 (memory of C++ code)
    if mask_type == _OF_PADDING and mask.dim() == 2:
        mask = mask[:, None, None].expand(scores.shape)
    masked = scores.masked_fill(mask, -inf)
    if in_one_kernel:
        return _aten._softmax.out(masked, -1, False, out=masked)
    return _aten._softmax(masked, -1, False)
