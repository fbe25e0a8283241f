"""What programs ask about attention: ``torch.backends.cuda.can_use_flash_attention`` and its kind.

A build without CUDA answers no to each, and a program would take a branch that no device takes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import MappingProxyType
from typing import Any, Final

import torch
from torch.utils._mode_utils import no_dispatch

from ....profiles import DeviceProfile
from .sdp_params import BACKENDS, CUDNN, EFFICIENT, FLASH
from .sdpa import sdp_params
from .select_backend import objection, select_backend

#: The functions of ``torch._C`` that say if a backend can run, by name.
_ASKED: Final = MappingProxyType(
    {
        "_can_use_flash_attention": FLASH,
        "_can_use_mem_efficient_attention": EFFICIENT,
        "_can_use_cudnn_attention": CUDNN,
    }
)


def patches(profile: DeviceProfile) -> dict[tuple[Any, str], Callable[..., Any]]:
    """Returns the answers on a device, by the owner and name of the function that is asked."""

    def can_use(backend: str) -> Callable[[Any, bool], bool]:
        def answer(params: Any, debug: bool = False) -> bool:
            against = _against(backend, params, profile)
            if against is not None and debug:
                print(f"Warning: {backend} attention: {against}", file=sys.stderr)
            return against is None

        return answer

    return {
        (torch._C, "_is_flash_attention_available"): lambda: True,
        **{(torch._C, name): can_use(backend) for name, backend in _ASKED.items()},
    }


def _against(backend: str, params: Any, profile: DeviceProfile) -> str | None:
    inputs = params.query, params.key, params.value
    if not all(tensor.is_cuda for tensor in inputs):
        return "the inputs are not on the device"
    mask, gqa = params.attn_mask, params.enable_gqa
    asked = sdp_params(*inputs, mask, params.dropout, params.is_causal, gqa, profile=profile)
    return objection(backend, asked)


def number_of_backend(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    profile: DeviceProfile,
) -> int:
    """Returns the number of the backend that PyTorch selects (``_fused_sdp_choice``).

    Raises:
        RuntimeError: no backend that is switched on can run; the text is PyTorch's.
    """
    if not query.is_cuda:
        tensors = (None if one is None else _plain(one) for one in (query, key, value, attn_mask))
        with torch._C.DisableTorchFunction(), no_dispatch():
            found: int = torch.ops.aten._fused_sdp_choice.default(
                *tensors, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            )
        return found
    given = query, key, value, attn_mask, dropout_p, is_causal, enable_gqa
    selected = select_backend(sdp_params(*given, profile=profile))
    if selected.backend is None:
        raise RuntimeError(selected.error)
    return BACKENDS.index(selected.backend)


def _plain(tensor: Any) -> torch.Tensor:
    """Returns a tensor of the host, without values, of the same sizes and strides."""
    with torch._C.DisableTorchFunction(), no_dispatch():
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, requires_grad=tensor.requires_grad
        )
