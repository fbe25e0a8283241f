"""Checks of dtypes that CUDA's operators alone make, outside of kernels.

The texts are those of aten/src/ATen/native/transformers/cuda/attention.cu, of SoftMax.cu and
SummaryOps.cu in native/cuda, and of native/cuda/DistributionTemplates.h.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch

from .names import NAMES
from .operand_checks import OPERAND_CHECKS

_aten = torch.ops.aten
_HALVES: Final = (torch.float16, torch.bfloat16)


def _flash(query: Any, *_: Any, **__: Any) -> str:
    if query.dtype in _HALVES:
        return ""
    return "FlashAttention only support fp16 and bf16 data type"


def _efficient(query: Any, *_: Any, **__: Any) -> str:
    if query.dtype in (torch.float32, *_HALVES):
        return ""
    return "Only fp32, half & bf16 supported at the moment"


def _softmax_backward(grad: Any, _output: Any, _dim: int, input_dtype: torch.dtype) -> str:
    narrower = input_dtype is torch.float16 and grad.dtype is torch.float32
    if grad.dtype is input_dtype or narrower:
        return ""
    return (
        "expected input and grad types to match, or input to be at::Half and grad to be at::Float"
    )


def _histogram(x: Any, *_: Any, **__: Any) -> str:
    return "HalfTensor is not supported" if x.dtype is torch.float16 else ""


def _bernoulli(x: Any, p: Any = None, *_: Any, **__: Any) -> str:
    probabilities = x if p is None else p
    if not isinstance(probabilities, torch.Tensor) or probabilities.dtype.is_floating_point:
        return ""
    if not x.numel():
        return ""
    name = NAMES[probabilities.dtype]
    return f"expected probabilities tensor to have floating type, got {name}"


#: What makes the text of an error of a call, or "", by operator.
CHECKS: Final[Mapping[Any, Callable[..., str]]] = MappingProxyType(
    {
        **OPERAND_CHECKS,
        _aten._flash_attention_forward.default: _flash,
        _aten._efficient_attention_forward.default: _efficient,
        _aten._softmax_backward_data.default: _softmax_backward,
        _aten.histc.default: _histogram,
        **dict.fromkeys(
            (_aten.bernoulli.default, _aten.bernoulli.Tensor, _aten.bernoulli_.Tensor), _bernoulli
        ),
    }
)
