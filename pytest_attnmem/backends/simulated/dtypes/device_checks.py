"""Checks of dtypes that CUDA's operators alone make, outside of kernels.

The texts are those of aten/src/ATen/native/transformers/cuda/attention.cu, of SoftMax.cu,
SummaryOps.cu, EmbeddingBag.cu, ScatterGatherKernel.cu and DistributionTemplates.h in native/cuda.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import torch

from .list_checks import LIST_CHECKS
from .names import NAMES, kernel_text
from .operand_checks import OPERAND_CHECKS

_aten = torch.ops.aten
_HALVES: Final = (torch.float16, torch.bfloat16)
_MAX: Final = 2  # the mode of a bag


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


def _scatter(x: Any, _dim: int, index: Any, _source: Any, reduce: str, *_: Any, **__: Any) -> str:
    """Checks the kernels that multiply, or take the larger or smaller number, of some elements."""
    adds = reduce in ("sum", "add") or not index.numel()
    if adds or not (x.dtype is torch.bool or x.dtype.is_complex):
        return ""
    return kernel_text("cuda_scatter_gather_base_kernel_func", x.dtype)


def _largest_of_bags(mode_at: int, grad: Any, *given: Any, **named: Any) -> str:
    mode = given[mode_at] if len(given) > mode_at else named["mode"]
    if mode != _MAX or grad.dtype is not torch.bfloat16:
        return ""
    return kernel_text("embedding_bag_backward_cuda_max", grad.dtype)


#: What makes the text of an error of a call, or "", by operator.
CHECKS: Final[Mapping[Any, Callable[..., str]]] = MappingProxyType(
    {
        **OPERAND_CHECKS,
        **LIST_CHECKS,
        _aten._flash_attention_forward.default: _flash,
        _aten._efficient_attention_forward.default: _efficient,
        _aten._softmax_backward_data.default: _softmax_backward,
        _aten.histc.default: _histogram,
        _aten._embedding_bag_backward.default: partial(_largest_of_bags, 7),
        _aten._embedding_bag_dense_backward.default: partial(_largest_of_bags, 6),
        **dict.fromkeys(
            (_aten.bernoulli.default, _aten.bernoulli.Tensor, _aten.bernoulli_.Tensor), _bernoulli
        ),
        **dict.fromkeys(
            (
                *(_aten.scatter_reduce.two, _aten.scatter_reduce.two_out),
                *(_aten.scatter_reduce_.two, _aten.scatter.reduce, _aten.scatter.reduce_out),
                *(_aten.scatter_.reduce, _aten.scatter.value_reduce),
                *(_aten.scatter.value_reduce_out, _aten.scatter_.value_reduce),
            ),
            _scatter,
        ),
    }
)
