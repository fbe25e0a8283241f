"""The choice between PyTorch's kernels and cuDNN's, as on a device, and grids that cuDNN samples.

Sources, in aten/src/ATen/native: ``_batch_norm_impl_index`` in Normalization.cpp, GridSampler.cpp,
GridSamplerUtils.h and ``use_cudnn`` of RNN.cpp. Batch normalization by cuDNN takes no memory but
the result in evaluation; in training it takes a workspace whose size it alone knows, as recurrent
networks do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

from ..memory.planned_memory import UnknownScratch
from ..pytorch_device.kernels import in_cpp
from ..scratch.plan_parts import suggested_format

_enable = torch._C._set_cudnn_enabled
_aten = torch.ops.aten
#: The largest batches that cuDNN normalizes.
_CUDNN_TRAINS: Final = 880_801
_CUDNN_EVALUATES: Final = 65_535


def without_cudnn(op: Any, *args: Any) -> Any:
    """Runs what C++ code composes without cuDNN, which a build for CUDA would call."""
    enabled = torch.backends.cudnn.enabled
    _enable(False)
    try:
        return in_cpp(op, *args)
    finally:
        _enable(enabled)


def batch_norm(mark_unknown: Callable[[str], None], *args: Any) -> Any:
    """Runs ``aten.batch_norm``, whose arguments are all given."""
    if not args[0].numel() and args[0].dim() > 1:
        return _of_nothing(*args[:3])
    input, weight, bias, mean, variance, training, momentum, eps, _ = args
    by_cudnn = _cudnn_normalizes(*args)
    if by_cudnn and training:
        mark_unknown("aten.batch_norm.default by cuDNN in training")
    if training or not by_cudnn:
        return without_cudnn(_aten.batch_norm.default, *args[:-1], False)
    input = input.contiguous(memory_format=suggested_format(input))
    rest = [given.contiguous() for given in (weight, bias, mean, variance)]
    return _aten.cudnn_batch_norm.default(input, *rest, False, momentum, eps)[0]


def mapped_batch_norm(mark_unknown: Callable[[str], None], *args: Any) -> Any:
    """Runs ``aten.batch_norm`` under ``vmap``, which asks its C++ code which kernel is there."""
    if args[0].is_cuda and _cudnn_normalizes(*args):
        mark_unknown("aten.batch_norm.default by cuDNN under torch.vmap")
    return without_cudnn(_aten.batch_norm.default, *args[:-1], False)


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


_MOST_CHANNELS: Final = 1024


def sampled(input: Any, grid: Any, interpolation: int, padding: int, align_corners: bool) -> Any:
    """Samples images by cuDNN where CUDA does: bilinear, zeros outside, and corners aligned."""
    if not (interpolation or padding) and align_corners and _cudnn_takes(input, grid):
        return _aten.cudnn_grid_sampler.default(input, grid)
    rest = (interpolation, padding, align_corners)
    return without_cudnn(_aten.grid_sampler.default, input, grid, *rest)


def _cudnn_takes(input: Any, grid: Any) -> bool:
    return (
        torch.backends.cudnn.enabled
        and input.is_cuda
        and input.dtype in (torch.float16, torch.float32, torch.float64)
        and input.dim() == 4
        and input.shape[1] <= _MOST_CHANNELS
        and 0 < input.numel() < 2**31
        and 0 < grid.numel() < 2**31
    )


def cudnn_samples(input: Any, grid: Any) -> Any:
    """Returns an output of cuDNN's shape and layout."""
    return input.new_empty((*input.shape[:2], *grid.shape[1:3]))


def cudnn_gradients(input: Any, grid: Any, _: Any) -> tuple[Any, Any]:
    """Returns gradients of cuDNN's shapes and layouts."""
    return input.new_empty(input.shape), grid.new_empty(grid.shape)


BY_CUDNN: Final = (
    "cuDNN's recurrent network takes scratch that is known on a GPU alone; PyTorch's own can be had"
    " with torch.backends.cudnn.flags(enabled=False)"
)


def weight_patches(unknown: UnknownScratch) -> dict[tuple[Any, str], Callable[..., Any]]:
    """Returns a patch of the question by which a network's weights move to one buffer of cuDNN."""
    original: Callable[[Any], bool] = torch.backends.cudnn.is_acceptable

    def is_acceptable(tensor: Any) -> bool:
        if is_for_cudnn(tensor):
            unknown.explain(BY_CUDNN)
            return False
        return original(tensor)

    return {(torch.backends.cudnn, "is_acceptable"): is_acceptable}


def is_for_cudnn(tensor: Any) -> bool:
    """Returns True if cuDNN computes a network on that input (``use_cudnn`` of RNN.cpp).

    It takes bfloat16 on some devices and in some versions alone.
    """
    return bool(
        torch.backends.cudnn.enabled
        and tensor.dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16)
        and tensor.device.type == "cuda"
        and tensor.numel()
    )
