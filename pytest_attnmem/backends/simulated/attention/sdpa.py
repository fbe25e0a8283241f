"""``scaled_dot_product_attention`` with the backend and operators of a CUDA device.

Source: ``aten/src/ATen/native/transformers/attention.cpp`` of PyTorch 2.13.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from ....profiles import DeviceProfile
from ....torch_releases import minor_version
from ....values.dispatcher import past_modes
from ..scratch.deterministic import is_deterministic
from .sdp_params import BACKENDS, CUDNN, EFFICIENT, FLASH, MATH, Described, SdpParams, Switches
from .select_backend import BATCHES_ADDED, objection, select_backend

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)


class Attention(NamedTuple):
    """A call of ``scaled_dot_product_attention``: […, H, N, d] x […, Hkv, M, d] x […, Hkv, M, dv].

    The names, their order and the defaults are PyTorch's.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    attn_mask: Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    @property
    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Returns query, key and value."""
        return self[:3]


def math_attention(call: Attention) -> Tensor:
    """Runs attention by operators that any device has.

    Half precision is widened to float unless ``allow_fp16_bf16_reduction_math_sdp`` is on. The
    weights are cast back too, although the result is not used.

    Raises:
        RuntimeError: both a mask and ``is_causal`` are given, or heads do not divide.
    """
    scale, attn_mask = call.scale, call.attn_mask
    if call.is_causal and attn_mask is not None:
        raise RuntimeError(
            "_scaled_dot_product_attention: "
            "Explicit attn_mask should not be set when is_causal=True"
        )
    dtype = call.query.dtype
    wide_query, wide_key, wide_value = map(_widened, call.inputs)
    factor = math.sqrt(abs(scale) if scale is not None else 1 / math.sqrt(call.query.shape[-1]))
    scaled = wide_query * (-factor if scale is not None and scale < 0 else factor)
    if call.is_causal:
        attn_mask = additive(_lower_triangle(scaled, wide_key), scaled.dtype)
    heads = call.query.shape[-3] if call.enable_gqa else None
    keys, values = (_repeated(one, heads) for one in (wide_key, wide_value))
    weights = scaled @ (keys.transpose(-2, -1) * factor)
    if attn_mask is not None:
        weights.add_(attn_mask)
    weights = _aten._safe_softmax(weights, -1)
    if call.dropout_p > 0:
        weights = _dropped(weights, call.dropout_p)
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


_VERSION = minor_version(torch.__version__)
_FLASH_STEP = 8  # a head dim is padded to a multiple of so many elements
_MASK_STEP = 8  # a mask's rows begin at multiples of so many elements


def scaled_dot_product_attention(call: Attention, profile: DeviceProfile) -> Tensor:
    """Runs attention with the backend and the operators that PyTorch uses on that device.

    [B, H, N, d] x [B, Hkv, M, d] x [B, Hkv, M, dv] -> [B, H, N, dv]; differentiable.

    Raises:
        RuntimeError: no backend that is switched on can run, or PyTorch rejects the arguments; the
            text is PyTorch's.
    """
    if not _acceptable(call) or not all(one.numel() for one in call.inputs):
        # Of tensors without elements, PyTorch returns zeros before it selects a backend.
        by_no_backend: Tensor = _aten.scaled_dot_product_attention.default.decompose(
            *call[:6], scale=call.scale, enable_gqa=call.enable_gqa
        )
        return by_no_backend
    if _VERSION >= BATCHES_ADDED and all(one.dim() == 3 for one in call.inputs):
        given = [one if one is None or one.dim() != 3 else one.unsqueeze(0) for one in call[:4]]
        batch = Attention._make((*given, *call[4:]))
        return scaled_dot_product_attention(batch, profile).squeeze(0)
    params = sdp_params(call, profile)
    choice = select_backend(params)
    if choice.backend is None:
        raise RuntimeError(choice.error)
    if choice.backend == FLASH:
        return _flash(call)
    if call.attn_mask is not None:
        call = call._replace(attn_mask=additive(call.attn_mask, call.query.dtype))
    if choice.backend == MATH:
        return math_attention(call)
    options = (params.trains, call.dropout_p, call.is_causal)
    if choice.backend != EFFICIENT:
        fused = _aten._scaled_dot_product_cudnn_attention
        return _first(fused(*call[:4], *options, False, scale=call.scale))
    if call.attn_mask is not None:  # the call alone holds it: it is freed once it has a copy
        call = call._replace(attn_mask=_bias(call.attn_mask, call.query, call.key))
    fused = _aten._scaled_dot_product_efficient_attention
    return _first(fused(*call[:4], *options, scale=call.scale))


def sdp_params(call: Attention, profile: DeviceProfile) -> SdpParams:
    """Returns the facts for PyTorch's choice, with its current settings."""
    query, key, value = map(_described, call.inputs)
    return SdpParams(
        query,
        key,
        value,
        profile.compute_capability,
        _VERSION,
        None if call.attn_mask is None else _described(call.attn_mask),
        call.dropout_p,
        call.is_causal,
        call.enable_gqa,
        _switches(),
        prefers_cudnn=os.environ.get("TORCH_CUDNN_SDPA_DEPRIORITIZED") != "1",
    )


def _acceptable(call: Attention) -> bool:
    """Returns True if PyTorch accepts the inputs (``validate_sdpa_input``)."""
    mask, dtype = call.attn_mask, call.query.dtype
    return all(one.dtype == dtype and one.dim() >= 2 for one in call.inputs) and (
        mask is None or mask.dtype in (torch.bool, torch.float32, dtype)
    )


def _flash(call: Attention) -> Tensor:
    """Runs flash attention; the head dim is padded outside the operator, and so is its gradient."""
    size = call.query.shape[-1]
    out = _first(
        _aten._scaled_dot_product_flash_attention(
            *map(_padded, call.inputs),
            call.dropout_p,
            call.is_causal,
            False,
            scale=size**-0.5 if call.scale is None else call.scale,
        )
    )
    return out if size % _FLASH_STEP == 0 else out[..., :size]


def _first(results: tuple[Tensor, ...]) -> Tensor:
    return results[0]


def _padded(tensor: Tensor) -> Tensor:
    """Returns the tensor with a padded head dim (``pad_last_dim``)."""
    beyond = tensor.shape[-1] % _FLASH_STEP
    if beyond == 0:
        return tensor
    padded: Tensor = _aten.constant_pad_nd(tensor, (0, _FLASH_STEP - beyond))
    return padded


def _bias(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Returns the mask [B, H, N, M] as the memory-efficient kernel takes it."""
    if mask.dtype != query.dtype:
        raise RuntimeError("invalid dtype for bias - should match query's dtype")
    return _aligned(mask).expand(*query.shape[:3], key.shape[2])


def _aligned(mask: Tensor) -> Tensor:
    """Returns a copy of the mask with aligned rows, unless they are (``preprocess_mask``).

    If the row length is aligned but the strides are not, the rows grow by a whole step.
    """
    *strides, last = mask.stride()
    if last == 1 and all(stride % _MASK_STEP == 0 for stride in strides):
        return mask
    size = mask.shape[-1]
    longer: Tensor = _aten.constant_pad_nd(mask, (0, _MASK_STEP - size % _MASK_STEP))
    return longer[..., :size]


def _described(tensor: Tensor) -> Described:
    return Described(
        tuple(tensor.shape),
        tuple(tensor.stride()),
        str(tensor.dtype).removeprefix("torch."),
        int(tensor.storage_offset()),
        tensor.requires_grad,
        tensor.is_nested,
    )


def _switches() -> Switches:
    flags = torch.backends.cuda
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    return Switches(
        flash=flags.flash_sdp_enabled(),
        efficient=flags.mem_efficient_sdp_enabled(),
        math=flags.math_sdp_enabled(),
        cudnn=flags.cudnn_sdp_enabled(),
        order=tuple(BACKENDS[number] for number in torch._C._get_sdp_priority_order()),
        deterministic=is_deterministic() and not warns,
        grad=torch.is_grad_enabled(),
    )


#: The functions of ``torch._C`` that say if a backend can run, by name.
_ASKED: Final = MappingProxyType(
    {
        "_can_use_flash_attention": FLASH,
        "_can_use_mem_efficient_attention": EFFICIENT,
        "_can_use_cudnn_attention": CUDNN,
    }
)


def attention_patches(profile: DeviceProfile) -> dict[tuple[Any, str], Callable[..., Any]]:
    """Returns the answers on a device, by the owner and name of the function that is asked."""

    def can_use(backend: str) -> Callable[..., bool]:
        return lambda params, debug=False: _can_use(backend, profile, params, debug)

    return {
        (torch._C, "_is_flash_attention_available"): lambda: True,
        **{(torch._C, name): can_use(backend) for name, backend in _ASKED.items()},
    }


def _can_use(backend: str, profile: DeviceProfile, params: Any, debug: bool) -> bool:
    """Returns True if a backend can run; if not, prints why for ``debug``, as PyTorch does."""
    inputs = params.query, params.key, params.value
    against: str | None = "the inputs are not on the device"
    if all(tensor.is_cuda for tensor in inputs):
        asked = (params.attn_mask, params.dropout, params.is_causal)
        call = Attention(*inputs, *asked, enable_gqa=params.enable_gqa)
        against = objection(backend, sdp_params(call, profile))
    if against is not None and debug:
        print(f"Warning: {backend} attention: {against}", file=sys.stderr)
    return against is None


def number_of_backend(call: Attention, profile: DeviceProfile) -> int:
    """Returns the number of the backend that PyTorch selects (``_fused_sdp_choice``).

    Raises:
        RuntimeError: no backend that is switched on can run; the text is PyTorch's.
    """
    if not call.query.is_cuda:
        tensors = (None if one is None else _plain(one) for one in call[:4])
        with torch.DisableTorchFunction(), past_modes():
            found: int = torch.ops.aten._fused_sdp_choice.default(
                *tensors, *call[4:6], scale=call.scale, enable_gqa=call.enable_gqa
            )
        return found
    selected = select_backend(sdp_params(call, profile))
    if selected.backend is None:
        raise RuntimeError(selected.error)
    return BACKENDS.index(selected.backend)


def _plain(tensor: Any) -> torch.Tensor:
    """Returns a tensor of the host, without values, of the same sizes and strides."""
    with torch.DisableTorchFunction(), past_modes():
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, requires_grad=tensor.requires_grad
        )
