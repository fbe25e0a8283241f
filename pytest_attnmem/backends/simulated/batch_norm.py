"""Batch normalization: the choice between PyTorch's kernels and cuDNN's, as on a device.

See ``_batch_norm_impl_index`` in ATen/native/Normalization.cpp. In evaluation cuDNN takes no memory
but the result; in training it takes a workspace whose size it alone knows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch
from torch._prims_common import suggest_memory_format

from .dispatch import in_cpp

_aten = torch.ops.aten
#: The largest batches that cuDNN normalizes.
_CUDNN_TRAINS: Final = 880_801
_CUDNN_EVALUATES: Final = 65_535


def batch_norm(mark_unknown: Callable[[str], None], *args: Any) -> Any:
    """Runs ``aten.batch_norm``, whose arguments are all given."""
    if not args[0].numel() and args[0].dim() > 1:
        return _of_nothing(*args[:3])
    if not _cudnn_normalizes(*args):
        return in_cpp(_aten.batch_norm.default, *args)
    input, weight, bias, mean, variance, training, momentum, eps, _ = args
    if training:
        mark_unknown("aten.batch_norm.default by cuDNN in training")
        return in_cpp(_aten.batch_norm.default, *args)
    input = input.contiguous(memory_format=suggest_memory_format(input))
    rest = [given.contiguous() for given in (weight, bias, mean, variance)]
    return _aten.cudnn_batch_norm.default(input, *rest, False, momentum, eps)[0]


def mapped_batch_norm(mark_unknown: Callable[[str], None], *args: Any) -> Any:
    """Runs ``aten.batch_norm`` under ``vmap``, which asks its C++ code which kernel is there."""
    if args[0].is_cuda and _cudnn_normalizes(*args):
        mark_unknown("aten.batch_norm.default by cuDNN under torch.vmap")
    return in_cpp(_aten.batch_norm.default, *args)


def _of_nothing(input: Any, weight: Any, bias: Any) -> Any:
    """Returns an empty batch that depends on its parameters, as the C++ code does.

    On the CPU that code makes its statistics, which nobody uses, in double precision.
    """
    narrow = input.dtype in (torch.float16, torch.bfloat16)
    dtype = torch.float32 if narrow else input.dtype
    statistics = [input.new_empty(input.shape[1], dtype=dtype) for _ in range(2)]
    out = input.clone()
    if weight is not None:
        out = out * weight.select(0, 0)
    if bias is not None:
        out = out + bias.select(0, 0)
    statistics.clear()
    return out


def _cudnn_normalizes(
    input: Any,
    weight: Any,
    bias: Any,
    mean: Any,
    variance: Any,
    training: bool,
    _momentum: float,
    _eps: float,
    cudnn_enabled: bool,
) -> bool:
    """Returns True if cuDNN normalizes the batch."""
    if weight is None or bias is None or not cudnn_enabled or not torch.backends.cudnn.enabled:
        return False
    statistics = (mean is not None) + (variance is not None)
    images = input.dim() >= 3 and input.numel() > 0
    most = _CUDNN_TRAINS if training else _CUDNN_EVALUATES
    halves = torch.bfloat16 in (input.dtype, weight.dtype) or (
        input.dtype is torch.float16 and weight.dtype is not torch.float32
    )
    known = statistics == 2 or (statistics == 0 and training)
    return images and known and not halves and input.shape[0] <= most
